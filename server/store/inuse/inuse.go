// Package inuse lets calls into a store while it is open, and its end wait for them.
package inuse

import (
	"context"
	"fmt"
	"sync"

	"github.com/carillonhq/carillon/server/store"
)

// Guard counts the calls that are under way. Its zero value has no partitions.
type Guard struct {
	partitions int

	mu     sync.RWMutex // held for reading by calls
	closed bool
}

// Open sets how many partitions there are, before the first call.
func (g *Guard) Open(partitions int) { g.partitions = partitions }

// Check refuses a partition that is not there.
func (g *Guard) Check(partition int) error {
	if partition < 0 || partition >= g.partitions {
		return fmt.Errorf("store: no partition %d of %d", partition, g.partitions)
	}
	return nil
}

// Begin refuses a call whose context has ended, that comes after Close, or is about partitions that are not
// there. done must be called when the call has ended. A call that has begun must not begin another one: Close
// may be waiting between the two.
func (g *Guard) Begin(ctx context.Context, partitions ...int) (done func(), err error) {
	for _, p := range partitions {
		if err := g.Check(p); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.mu.RLock()
	if g.closed {
		g.mu.RUnlock()
		return nil, store.ErrClosed
	}
	return g.mu.RUnlock, nil
}

// Close waits for the calls that are under way, and then calls end. Calls that come later are refused, and a
// second Close does nothing.
func (g *Guard) Close(end func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	return end()
}

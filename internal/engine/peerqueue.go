package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// remote reports whether a partition must be reached through the peers.
func (e *Engine) remote(p *partitionRunner) bool { return e.cfg.Peers != nil && !p.serving.Load() }

// elsewhere reports whether nothing was done because this node does not own the partition, or has lost it.
func elsewhere(err error) bool {
	return (errors.Is(err, ErrNotOwner) || errors.Is(err, ErrNotTaken)) && !unknown(err)
}

// across asks a partition, on whichever node it is.
func across[T any](e *Engine, p *partitionRunner, f func(Partitions) (T, error)) (T, error) {
	if !e.remote(p) {
		value, err := f(e)
		if e.cfg.Peers == nil || !elsewhere(err) {
			return value, err
		}
	}
	return f(e.cfg.Peers)
}

// rest lets the peers finish an operation on many items, of which n are done, if the partition has been
// handed over meanwhile. If none is done, the caller finds the owner itself.
func (e *Engine) rest(n int, err error, f func(Partitions) (int, error)) (int, error) {
	if e.cfg.Peers != nil && n > 0 && elsewhere(err) {
		var more int
		more, err = f(e.cfg.Peers)
		n += more
	}
	return n, partly(err, n > 0)
}

// answerWithin bounds requests between partitions that no caller waits for. A request that takes longer is
// not carried out.
const answerWithin = 10 * time.Second

// tellPeer delivers a notice to a job in a partition of another node, or with check asks whether the job
// waits.
func (e *Engine) tellPeer(p int, l partition.Notice, check bool) partition.Answer {
	ctx, cancel := context.WithTimeout(e.life, answerWithin)
	defer cancel()
	if check {
		switch waits, err := e.cfg.Peers.Waits(ctx, p, l.Dependency); {
		case err != nil:
			return partition.Unreached
		case !waits:
			return partition.Nobody
		}
		return partition.Taken
	}
	answer, err := e.cfg.Peers.Release(ctx, p, l)
	if err != nil {
		return partition.Unreached
	}
	return answer
}

// peerCallsAtOnce is how many notices to other nodes may be under way at once.
const peerCallsAtOnce = 64

// peerQueue runs, in order, functions that the lanes' goroutines must not wait for.
type peerQueue struct {
	mu    sync.Mutex
	queue []func()
	busy  int
}

func (c *peerQueue) send(e *Engine, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if c.busy < peerCallsAtOnce {
		c.busy++
		e.wg.Go(c.run)
	}
}

// run runs queued functions until none is left.
func (c *peerQueue) run() {
	for f := c.next(); f != nil; f = c.next() {
		f()
	}
}

func (c *peerQueue) next() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.busy--
		c.queue = nil
		return nil
	}
	f := c.queue[0]
	c.queue = c.queue[1:]
	return f
}

// seenKey is the context key of the time set by WithSeen.
type seenKey struct{}

// WithSeen records in a context when the first node of a cluster saw the call. Relative times of jobs that
// are put or patched count from then, however long it took to find the owner.
func WithSeen(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, seenKey{}, t)
}

// seen returns when a call was first seen, in UTC ns; 0 if not recorded.
func seen(ctx context.Context) int64 {
	if t, ok := ctx.Value(seenKey{}).(time.Time); ok && carillon.Storable(t) {
		return t.UnixNano()
	}
	return 0
}

package engine

import (
	"context"
	"sync"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
)

// answerWithin bounds requests between partitions that no caller waits for. A request that takes longer is
// not carried out.
const answerWithin = 10 * time.Second

// tell delivers a notice to a job in a partition of another node, or with check asks whether the job
// waits.
func (c *peerQueue) tell(p int, l partition.Notice, check bool) partition.Answer {
	ctx, cancel := context.WithTimeout(c.life, answerWithin)
	defer cancel()
	if check {
		switch waits, err := Send(ctx, c.peers, p, StillWaits{l.Dependency}); {
		case err != nil:
			return partition.Unreached
		case !waits:
			return partition.Nobody
		}
		return partition.Taken
	}
	answer, err := Send(ctx, c.peers, p, DeliverNotice{l})
	if err != nil {
		return partition.Unreached
	}
	return answer
}

// peerCallsAtOnce is how many notices to other nodes may be under way at once.
const peerCallsAtOnce = 64

// peerQueue runs, in order, functions that the lanes' goroutines must not wait for.
type peerQueue struct {
	peers   Partitions
	life    context.Context // ends when the engine stops
	running *sync.WaitGroup

	mu    sync.Mutex
	queue []func()
	busy  int
}

func (c *peerQueue) send(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if c.busy < peerCallsAtOnce {
		c.busy++
		c.running.Go(c.run)
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

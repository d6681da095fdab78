package multisession

import (
	"time"

	"github.com/carillonhq/carillon"
)

// restless is how long credits stay committed before a node may be asked for them again.
const restless = 50 * time.Millisecond

// allocation distributes the worker's credits of all queues among the nodes: it brings what happens to the
// queue's [creditPool], and makes the moves that follow. The session's lock guards it.
type allocation struct {
	send   func(n *node, c carillon.Credit) // gives credits to a node, or asks for them back
	answer func(c carillon.Credit)          // answers a withdrawal of the worker

	pools   map[string]*creditPool
	queues  []string // in a fixed order, so that nothing depends on map order
	retry   *alarm   // calls tick
	stopped bool
}

// newAllocation makes pools for queues; send and answer are still to be set. tick calls [allocation.tick]
// with the lock held.
func newAllocation(queues []string, tick func()) *allocation {
	a := &allocation{pools: map[string]*creditPool{}, queues: queues, retry: newAlarm(tick)}
	for _, q := range queues {
		a.pools[q] = &creditPool{}
	}
	return a
}

// has reports whether there is a pool for a queue.
func (a *allocation) has(queue string) bool { return a.pools[queue] != nil }

// change applies what the worker grants and takes back.
func (a *allocation) change(credits []carillon.Credit) {
	for _, c := range credits {
		a.on(c.Queue, func(p *creditPool) {
			if c.N < 0 {
				p.takeBack(-c.N)
			} else {
				p.add(c.N)
			}
		})
	}
}

// came records that runs of a queue, each of which used a credit, came from a node.
func (a *allocation) came(n *node, queue string, runs int) {
	a.on(queue, func(p *creditPool) { p.came(n, runs) })
}

// expired records a run that used a credit and came too late for the worker: the credit is free again.
func (a *allocation) expired(n *node, queue string) {
	a.on(queue, func(p *creditPool) {
		p.came(n, 1)
		p.add(1)
	})
}

// freed records that the worker does not get a run that has come.
func (a *allocation) freed(queue string) { a.on(queue, func(p *creditPool) { p.add(1) }) }

// returned records the credits that a node gives back.
func (a *allocation) returned(n *node, credits []carillon.Credit) {
	for _, c := range credits {
		a.on(c.Queue, func(p *creditPool) { p.returned(n, c.N) })
	}
}

// wanted records the queues of which runs wait at a node that had no credits.
func (a *allocation) wanted(n *node, queues []string) {
	for _, q := range queues {
		a.on(q, func(p *creditPool) { p.wanted(n) })
	}
}

// join adds a node.
func (a *allocation) join(n *node) { a.each(func(p *creditPool) { p.join(n) }) }

// leave removes a node whose session is over: its credits become free.
func (a *allocation) leave(n *node) { a.each(func(p *creditPool) { p.leave(n) }) }

// retire asks for the credits of a node that is leaving.
func (a *allocation) retire(n *node) { a.each(func(p *creditPool) { p.retire(n) }) }

// tick lets the pools ask again for committed credits.
func (a *allocation) tick() {
	a.retry.rang()
	a.each((*creditPool).tick)
}

// each changes all pools.
func (a *allocation) each(change func(*creditPool)) {
	for _, q := range a.queues {
		a.on(q, change)
	}
}

// on changes the pool of a queue, if there is one, and makes the moves that follow.
func (a *allocation) on(queue string, change func(*creditPool)) {
	if p := a.pools[queue]; p != nil {
		change(p)
		a.settle(queue, p)
	}
}

// probe makes a node answer: it withdraws a credit there, which the node need not have, unless an answer is
// due anyway.
func (a *allocation) probe(n *node) {
	queue := a.queues[0]
	if a.pools[queue].probe(n) {
		a.send(n, carillon.Credit{Queue: queue, N: -1})
	}
}

// settle makes the moves of a queue's pool.
func (a *allocation) settle(queue string, p *creditPool) {
	if a.stopped {
		return
	}
	moves, answers := p.settle()
	for _, m := range moves {
		a.send(m.node, carillon.Credit{Queue: queue, N: m.n})
	}
	for _, n := range answers {
		a.answer(carillon.Credit{Queue: queue, N: n})
	}
	if p.restless() {
		a.retry.arm(restless)
	}
}

// stop ends all moves.
func (a *allocation) stop() {
	a.stopped = true
	a.retry.stop()
}

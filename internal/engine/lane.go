package engine

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// lane runs the rounds of some partitions, one after the other, and makes what they change durable together: one batch of each
// is a group, and while one group is on its way the next one fills. A partition stays in its lane for life, so one goroutine
// alone touches its machine.
type lane struct {
	e       *Engine
	parts   []*partitionRunner // in the order of their numbers
	grouper store.Grouper      // nil: each batch is applied by itself
	reader  store.Reader       // nil: each partition reads for itself
	near    bool               // the store is in this process

	bell      chan struct{} // holds one when there is something to do
	groups    chan *group   // to the committer
	settled   chan *group   // and back
	reads     chan *reading // to the reader
	found     chan *reading // and back
	claimed   claimed
	groupPuts groupPuts

	// Of the lane's goroutine alone.
	group   group
	flying  bool  // the group is on its way
	left    int64 // since when, by Engine.elapsed
	reading reading
	asking  bool // what reading says is being read
	unread  bool // calls wait that nothing is read for
}

func newLane(e *Engine) *lane {
	l := &lane{e: e, bell: make(chan struct{}, 1), groups: make(chan *group, 1), settled: make(chan *group, 1),
		reads: make(chan *reading, 1), found: make(chan *reading, 1)}
	l.grouper, _ = e.store.(store.Grouper)
	l.reader, _ = e.store.(store.Reader)
	l.near = inProcess(e.store)
	return l
}

// lanesOf is how many lanes an engine with n partitions has.
func (c *Config) lanesOf(n int) int {
	lanes := c.Lanes
	if _, groups := c.Store.(store.Grouper); lanes == 0 && groups {
		lanes = 1
	}
	if lanes == 0 {
		lanes = n
	}
	return min(lanes, n)
}

// ring makes the lane look what there is to do.
func (l *lane) ring() {
	select {
	case l.bell <- struct{}{}:
	default:
	}
}

// run is the lane's goroutine.
func (l *lane) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.bell:
		case <-timer.C:
			select { // one pass does for both
			case <-l.bell:
			default:
			}
		}
		if l.e.stopping() {
			l.end()
			return
		}
		l.pass()
		timer.Reset(l.sleep())
	}
}

// pass gives each partition that wants one a round, once, so that none keeps the others waiting, and sends what has changed on
// its way.
func (l *lane) pass() {
	now := l.e.elapsed()
	l.giveUpWaiting(now)
	l.reclaim(now)
	l.turn(l.parts[0])
	l.learn()
	l.fetch()
	for _, p := range l.parts {
		l.turn(p)
		l.receive()
		p.endOrphan(now)
		p.heartbeatOrphans(now)
		if p.claiming {
			p.passMeanwhile()
		}
		if p.due(now) {
			p.round()
		}
	}
	l.putGroups()
	l.commit()
	if l.unread && !l.asking {
		l.ring()
	}
}

// turn waits until it is the partition's turn, in a simulation.
func (l *lane) turn(p *partitionRunner) {
	if f := l.e.cfg.Turn; f != nil {
		f(p.number)
	}
}

// receive takes what has come back to the lane itself.
func (l *lane) receive() {
	select {
	case g := <-l.settled:
		l.settle(g)
	default:
	}
	l.install(l.claimed.take())
}

// sleep is how long nothing happens by itself.
func (l *lane) sleep() time.Duration {
	now := l.e.elapsed()
	next := now + int64(pollEvery)
	for _, p := range l.parts {
		switch {
		case p.m != nil:
			next = min(next, p.wake)
		case !p.claiming && p.wanted.Load():
			next = min(next, p.retryAt)
		}
		if len(p.orphans) > 0 {
			next = min(next, p.orphans[0].until)
		}
	}
	return time.Duration(max(0, next-now))
}

// end makes the last batches durable and leaves.
func (l *lane) end() {
	l.groupPuts.close()
	for _, p := range l.parts {
		if p.m != nil {
			p.m.KeepGrants()
		}
	}
	for l.commit(); l.flying; l.commit() {
		l.settle(<-l.settled)
		for _, p := range l.parts {
			p.refuseAtEnd(p.box.take())
		}
	}
	close(l.groups)
	close(l.reads)
	for _, p := range l.parts {
		p.end()
	}
}

// errStopping is what callers are told from Stop on.
func errStopping() *carillon.Error {
	return carillon.Errorf(carillon.Unavailable, "", "the node is shutting down")
}

// errStopping is what callers are told of whose call nothing has been done. In a cluster the next owner can do it.
func (e *Engine) errStopping() error {
	err := errStopping()
	if e.cfg.Peers != nil {
		err.Err = ErrNotOwner
	}
	return err
}

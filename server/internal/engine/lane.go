package engine

import (
	"cmp"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// lane is the event loop of several partitions. It runs their rounds one after the other and makes what they
// change durable together. A partition stays in its lane for life, so only one goroutine touches its machine.
//
//	callers, consumers, peers --> mailboxes --ring--> run: pass --Submit---> store    --settled--> run
//	                                                       |-----reads---->  lookUp   ---found---> run
//	                                                       +--claims.want->  claimer  --claimed--> run
//
// Commits, reads for several partitions and claims run on other goroutines, and their results come back to
// the lane. Only what a round finds missing is read on the lane itself (reads.go). A pass takes the results
// in, gives each partition that is due one round (partition.go), and at the end submits all changed batches
// as one group (commit.go). A partition gets one round in a pass however much it has to do, so that none
// delays the others; if it has more, it rings for the next pass. Group puts go in after the rounds, right
// before the group is submitted (groupput.go).
//
// How many lanes there are follows from the store (lanesOf): one if the store commits a group at about the
// cost of one batch, otherwise one for each partition (docs/decisions/0023).
type lane struct {
	e       *Engine
	parts   []*partitionRunner // ordered by number
	grouper store.Grouper      // nil if the store cannot group: the lane has one partition
	way     Way                // to the store's Submitter, or to applier
	applier *applier           // nil if the store is a Submitter
	done    func(error)        // committed, bound once
	// Nil if the store cannot read for several partitions at once: each reads for itself.
	reader store.Reader
	near   bool // the store is in this process

	bell      bell          // a pass is wanted
	settled   chan error    // the outcome of the group in flight
	reads     chan *reading // to lookUp
	found     chan *reading // back from it
	claimed   chan []*claimResult
	groupPuts groupPuts

	// Of the lane's goroutine alone.
	group   group
	flying  bool  // group is in flight
	sentAt  int64 // when it was sent, by Engine.elapsed
	asked   bool  // the keeper was rung because it is not answered
	reading reading
	asking  bool // lookUp is reading what reading lists
	unread  bool // calls wait whose records are not being read
}

func newLane(e *Engine) *lane {
	l := &lane{e: e, bell: newBell(), settled: make(chan error, 1),
		reads: make(chan *reading, 1), found: make(chan *reading, 1),
		// No partition has more than one result there.
		claimed: make(chan []*claimResult, e.store.Meta().Partitions)}
	l.done = l.committed
	l.grouper, _ = e.store.(store.Grouper)
	submitter, ok := e.store.(store.Submitter)
	if !ok {
		l.applier = &applier{l.grouper, make(chan submission, 1)}
		submitter = l.applier
	}
	l.way = direct{submitter}
	if e.cfg.Way != nil {
		l.way = e.cfg.Way(submitter)
	}
	if r, ok := e.store.(store.Reader); ok {
		l.reader = e.readerOf(r)
	}
	l.near = inProcess(e.store)
	return l
}

// lanesOf returns how many lanes an engine with n partitions has.
func (c *Config) lanesOf(n int) int {
	if _, groups := c.Store.(store.Grouper); !groups {
		return n
	}
	return min(cmp.Or(c.Lanes, 1), n)
}

// bell wakes a goroutine. It holds one while it rings.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

// ring wakes the goroutine, unless the bell rings already.
func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// ring requests a pass.
func (l *lane) ring() { l.bell.ring() }

// run is the lane's goroutine.
func (l *lane) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.bell:
		case <-timer.C:
			select { // one pass serves both
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

// pass gives each partition that is due one round, so that none keeps the others waiting, and sends off what
// has changed.
func (l *lane) pass() {
	now := l.e.elapsed()
	l.giveUpWaiting(now)
	l.askStore()
	l.reclaim(now)
	l.e.cfg.Turn(l.parts[0].number)
	l.learn()
	l.fetch()
	for _, p := range l.parts {
		l.e.cfg.Turn(p.number)
		l.receive()
		p.tendOrphans(now)
		workOvertime(p, now)
		if p.own.is(claiming) {
			p.relayMeanwhile()
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

// receive takes results of the store and the claimer.
func (l *lane) receive() {
	select {
	case err := <-l.settled:
		l.settle(err)
	default:
	}
	for {
		select {
		case terms := <-l.claimed:
			l.install(terms)
		default:
			return
		}
	}
}

// sleep returns how long the lane can wait if nothing rings.
func (l *lane) sleep() time.Duration {
	now := l.e.elapsed()
	next := now + int64(pollEvery)
	for _, p := range l.parts {
		switch {
		case p.own.holds():
			next = min(next, p.timers.wake)
		case !p.own.is(claiming) && p.own.wanted.Load():
			next = min(next, p.own.retryAt)
		}
		if o := p.orphans.overtime.Load(); o != nil {
			next = min(next, o.wake)
		}
		if at, ok := p.orphans.nextEnd(); ok {
			next = min(next, at)
		}
	}
	return time.Duration(max(0, next-now))
}

// end makes the last batches durable and ends the partitions.
func (l *lane) end() {
	l.groupPuts.close()
	for _, p := range l.parts {
		if p.own.holds() {
			p.m.Attempts.KeepAll()
		}
	}
	for l.commit(); l.flying; l.commit() {
		l.settle(<-l.settled)
		for _, p := range l.parts {
			p.refuseAtEnd(p.box.take())
		}
	}
	if l.applier != nil {
		close(l.applier.queue)
	}
	close(l.reads)
	for _, p := range l.parts {
		p.end()
	}
}

// errStopping returns the error for callers from Stop on.
func errStopping() *carillon.Error {
	return carillon.Errorf(carillon.Unavailable, "", "the node is shutting down")
}

// errStopping returns the error for a caller whose call was not begun. In a cluster it says that the next
// owner can be asked.
func (ps *partitions) errStopping() error {
	err := errStopping()
	if ps.peers != nil {
		err.Err = message.ErrNotOwner
	}
	return err
}

package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// partitionRunner drives one partition on this node. It holds the partition's machine and everything between
// the machine and the lane: mailbox, batches on their way to the store, ownership.
//
// Ownership of a partition has five states. They are not one field: each follows from the fields in
// parentheses. Only the lane's goroutine moves a partition from one state to the next (Start does before the
// lanes run).
//
//	unowned   no term here (m == nil, not claiming); another node may own it (away), or a claim failed
//	claiming  the claimer gets a term and loads a machine (claiming); mail waits in the mailbox
//	owned     rounds run and calls are answered (m != nil, serving)
//	leaving   nothing is handed out, calls are refused, the last batches become durable (m != nil, leaving)
//	lost      the term ended without a hand-over; memory may be ahead of the store, so it is thrown away
//
//	             reclaim (claims.go)         install, begin (claims.go, term.go)
//	  unowned -----------------------> claiming ---------------------------> owned
//	   ^ ^ ^    install: it failed        |                                  |  |
//	   | | +------------------------------+         leave (assign.go)        |  |
//	   | |                                    +------------------------------+  | lose (term.go)
//	   | |      left (assign.go)              v          lose (term.go)         v
//	   | +-------------------------------- leaving --------------------------> lost
//	   |                              drop, within lose                         |
//	   +------------------------------------------------------------------------+
//
// Assign sets wanted, which starts everything: reclaim claims a partition that is wanted and not owned, and a
// round hands over one that is owned and not wanted. A hand-over that has begun is not called off; a
// partition that is wanted again is claimed again after it. A term is lost when a batch fails (commit.go),
// when its lease runs out or another node has claimed the partition (lease.go), or when a group put cannot be
// completed (groupput.go). A lost term that the store may still believe in is kept in stray: it is released
// when this node is not to own the partition any more.
//
// Other goroutines see ownership in three atomics. published is the term that the store gave us: it is set as
// soon as the claim has succeeded, before the machine is loaded, because the lease must be renewed from then
// on. serving is true from begin to drop. wanted is what Assign said last.
type partitionRunner struct {
	e      *Engine
	lane   *lane
	number int
	box    *mailbox
	ctx    context.Context // for reads; never cancelled, since reads end with the store

	// Of the lane's goroutine alone.
	term     store.Term
	shard    store.Shard
	m        *partition.Machine // nil if there is no term
	homes    *homes             // nil if this node is alone
	cause    error              // why there is no term
	lost     bool               // it could not be loaded because of damage; not the state lost
	claiming bool               // it is being claimed, and mail waits
	owed     bool               // a round was requested while none could run
	away     bool               // no term here, and another node may own it
	leaving  bool               // it is being handed over
	leftAt   int64              // when the hand-over began, by Engine.elapsed
	stray    *pendingRelease    // its last term, if the store may not know that it is over
	lostAt   time.Time          // when a term was last lost; zero if never
	retryAt  int64              // when it may be claimed again, by Engine.elapsed
	// The latest reading of the node's clock at which something may have been handed out.
	latest       int64
	wake         int64                    // when the next round is due without mail, by Engine.elapsed
	sent         uint64                   // number of the newest batch sent to the store
	durable      uint64                   // number of the newest durable batch
	waiting      []answer                 // in the order of their batches
	blocked      map[partition.Queue]bool // queues without room; the dispatcher reports when there is some
	unserved     map[partition.Queue]bool // queues without a consumer
	moved        map[partition.Queue]int  // attempts delivered since the last poll
	lineup       []partition.Waiting
	parkedQueues []partition.Queue
	touched      []store.Ref        // records loaded for calls of this round
	missing      map[store.Ref]bool // records that the lane found not to be in the store, for this round
	asking       bool               // the lane is reading for calls that wait in the mailbox
	changed      map[store.Ref]bool // records sent to the store while the lane reads
	unfinished   bool               // still to look for batch puts that an earlier owner left unfinished
	polled       int64              // by Engine.elapsed, like swept
	swept        int64

	unsettled      unsettled // settings of namespaces on their way to the store
	backfillsSwept string    // key of the last ended backfill that was looked at

	// Batches with an applied marker and no intent, and when that was found, by Engine.elapsed.
	gone     map[string]int64
	sweeping bool // applied markers are being checked

	orphans []orphan           // attempts of ended terms, ordered by when they end
	beaten  int64              // when this node last sent heartbeats for them, by Engine.elapsed
	passing context.CancelFunc // cancels the goroutine that relays reports; nil if there is none
	pause   time.Duration      // before the next try to relay

	waiters waiterCheck

	quiet        chan struct{} // closed once draining and no attempt is in force
	reading      turn          // held while settings are read for this partition
	settingsRead atomic.Uint64 // how often they were read
	follow       following
	wanted       atomic.Bool // this node is to own it
	serving      atomic.Bool // this node owns it and answers calls
	failing      atomic.Pointer[failing]
	beganAt      atomic.Int64               // when it last became owned, by Engine.elapsed
	lostLast     atomic.Int64               // when a term was last lost, by Engine.elapsed; 0 = never
	published    atomic.Pointer[store.Term] // the term given by the store; zero if none
	leased       atomic.Int64               // when the last renewal of the lease began, by Engine.elapsed
	leasedAt     atomic.Int64               // the same by the node's clock, UTC ns
	// When the store began to write a batch, by Engine.elapsed; 0 = no write is under way.
	applying atomic.Int64
	stats    atomic.Pointer[partition.Stats]
	depths   atomic.Pointer[[]depth] // refreshed once a second
}

func newPartitionRunner(l *lane, number int) *partitionRunner {
	return &partitionRunner{e: l.e, lane: l, number: number, box: &mailbox{wake: l.ring}, ctx: context.Background(), quiet: make(chan struct{}),
		reading: newTurn(), cause: ErrNotOwner, away: true, missing: map[store.Ref]bool{}, changed: map[store.Ref]bool{}}
}

// pollEvery is the interval of the safety poll that runs beside the exact timer.
const pollEvery = time.Second

// sweepEvery is how often the history is searched for finished runs whose retention has ended.
const sweepEvery = time.Minute

// due reports whether a round should run now: mail has come in, or the wake time has been reached.
func (p *partitionRunner) due(now int64) bool {
	if p.claiming {
		return false
	}
	wanted := p.box.answer() || p.owed
	p.owed = false
	return wanted || p.m != nil && p.wake <= now
}

// sleep returns how long until the machine needs a round without mail, at most pollEvery.
func (p *partitionRunner) sleep() time.Duration {
	at, ok := p.m.NextWake()
	if !ok {
		return pollEvery
	}
	return max(0, min(pollEvery, time.Duration(at-p.e.now())))
}

// round processes the mail and everything that is due by now.
func (p *partitionRunner) round() {
	in := p.mail()
	now := p.e.now()
	p.passed(in.passed)
	p.settleOrphans(&in)
	p.checkLease(in.lost)
	if p.m == nil || p.leaving {
		p.refuse(in)
		return
	}
	if !p.wanted.Load() {
		p.hear(in, now) // mail that came in before Assign
		p.leave()
		p.refuse(mail{calls: in.calls})
		return
	}
	p.goOn()
	p.hear(in, now)
	p.hearPermits(&in.cluster)
	for _, t := range in.permits {
		p.m.Promote(now, t.line, t.n)
	}
	p.noteMarks(in.marks)
	p.serveCalls(in.calls, now)
	p.correspond(in.dependencyAnswers, now)
	p.m.Tick(now)
	p.poll(now)
	p.feed(now)
	// First, so that a run whose lease has ended does not go back to the consumer that let it end.
	p.sendCancels()
	p.dispatch(in, now)
	p.m.PassPermits()
	p.askPermits()
	p.rest()
}

// mail returns the mail for this round. Calls whose records are still being read stay in the mailbox, unless
// the partition will refuse them anyway.
func (p *partitionRunner) mail() mail {
	if p.lane.reader == nil || p.m == nil || p.leaving || !p.wanted.Load() {
		return p.box.take()
	}
	in, unread := p.box.takeReady(p.m.Has)
	p.lane.unread = p.lane.unread || unread
	return in
}

// rest finishes the work with the machine for now: it lets go of touched records, sends cancels, publishes
// figures and sets the next wake time.
func (p *partitionRunner) rest() {
	if p.m == nil {
		return
	}
	p.m.Settle(p.touched)
	p.touched = p.touched[:0]
	clear(p.missing)
	p.sendCancels()
	p.publish()
	p.wake = p.wakeForPermits(p.e.elapsed() + int64(p.sleep()))
}

// sendCancels tells consumers which attempts to stop.
func (p *partitionRunner) sendCancels() {
	if c := p.m.Cancels(); len(c) > 0 {
		p.e.dispatcher.Cancel(c)
	}
}

// publish makes the machine's figures visible to other goroutines.
func (p *partitionRunner) publish() {
	s := p.m.Stats()
	if old := p.stats.Load(); old == nil || *old != s {
		p.stats.Store(&s)
	}
	if s.InFlight == 0 && p.draining() {
		p.beQuiet()
	}
}

// beQuiet tells Drain not to wait for this partition any more.
func (p *partitionRunner) beQuiet() {
	select {
	case <-p.quiet:
	default:
		close(p.quiet)
	}
}

func (p *partitionRunner) draining() bool {
	select {
	case <-p.e.drain:
		return true
	default:
		return false
	}
}

// refuse answers mail while there is no term, or only until the hand-over ends. Reports of consumers are kept
// for the next term here, or relayed to the partition's owner.
func (p *partitionRunner) refuse(in mail) {
	for _, c := range in.calls {
		c.fail(p.refusal())
	}
	p.postpone(in)
	if p.leaving {
		p.wake = p.e.elapsed() + int64(pollEvery)
		return
	}
	dropped, unheard := 0, 0
	p.box.keep(func(m *mail) {
		dropped = m.limit()
		unheard = len(m.reports) + len(m.losses)
	})
	if dropped > 0 {
		p.e.log.Warn("results were dropped, since nobody owns the partition to hear them", "partition", p.number, "results", dropped)
		p.e.dropped(dropped)
	}
	switch {
	case p.elsewhere():
		p.passOn()
	case p.e.cfg.Peers == nil || unheard > 0:
		// The reports wait for the next term; or no other node could take them, so the drain waits for that
		// term.
		return
	}
	// The consumer that sent a report may be gone and unable to repeat it, so wait until relaying has ended.
	if p.draining() && p.passing == nil {
		p.beQuiet()
	}
}

// refusal returns the error for calls that are refused now.
func (p *partitionRunner) refusal() error {
	if p.elsewhere() || p.leaving {
		return notOwner(p.number)
	}
	if p.lost {
		return dataLoss(p.cause)
	}
	return unavailable(p.cause)
}

// elsewhere reports whether another node owns the partition or is to own it.
func (p *partitionRunner) elsewhere() bool { return p.away || !p.wanted.Load() }

// poll runs once a second and does what no event triggers: it parks runs that find no consumer or no room,
// checks dependencies, waiters and permits, and once a minute sweeps the history.
func (p *partitionRunner) poll(now int64) {
	elapsed := p.e.elapsed() // not the node's clock, which may be set back and would stop the poll
	if p.polled != 0 && elapsed-p.polled < int64(pollEvery) {
		return
	}
	p.polled = elapsed
	p.park(now)
	p.checkDependencies(now)
	p.askForWaiters()
	p.m.AwaitPermits()
	p.pollPermits()
	clear(p.moved)
	if p.swept == 0 || elapsed-p.swept >= int64(sweepEvery) {
		if p.swept != 0 {
			p.m.Sweep(now)
			p.sweepBackfills(now)
			p.askAfterMarks()
		}
		p.swept = elapsed
	}
}

// end refuses the remaining mail and callers. The last batches are durable by now, or lost.
func (p *partitionRunner) end() {
	p.refuseAtEnd(p.box.close())
	for _, w := range p.waiting {
		w.answer(errStopping())
	}
	p.sever()
}

func (p *partitionRunner) refuseAtEnd(in mail) {
	for _, c := range in.calls {
		c.fail(p.e.errStopping())
	}
}

package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// partitionRunner is one partition that this node owns: its machine, and what lies between that and the lane which runs its rounds.
type partitionRunner struct {
	e      *Engine
	lane   *lane
	number int
	box    *mailbox
	ctx    context.Context // of reads: never cancelled, since they end with the store

	// Of the lane's goroutine alone.
	term         store.Term
	shard        store.Shard
	m            *partition.Machine       // nil: the term was lost
	homes        *homes                   // nil: this node is alone
	cause        error                    // why
	lost         bool                     // it could not be loaded, as what it needs is damaged
	claiming     bool                     // it is being claimed: what comes in waits
	owed         bool                     // a round, which was asked for when there could be none
	away         bool                     // it has no term here, and another node may own it
	leaving      bool                     // it is being handed over
	leftAt       int64                    // since when, by Engine.elapsed
	stray        *pendingRelease          // its last term, if the store may not know that it is over
	lostAt       time.Time                // when a term was last lost; the zero time = never
	retryAt      int64                    // when it may be claimed again, by Engine.elapsed
	latest       int64                    // the latest reading of the node's clock by which something may have been handed out
	wake         int64                    // when the next round is due by itself, by Engine.elapsed
	sent         uint64                   // the newest batch that has left for the store
	durable      uint64                   // the newest one that is durable
	waiting      []answer                 // in the order of their batches
	blocked      map[partition.Queue]bool // queues that the dispatcher will tell us about
	unserved     map[partition.Queue]bool // queues without a consumer
	moved        map[partition.Queue]int  // delivered since the last poll
	lineup       []partition.Waiting
	parkedQueues []partition.Queue
	touched      []store.Ref        // brought into memory by calls of this round
	missing      map[store.Ref]bool // what the lane has found not to be in the store, for this round
	asking       bool               // the lane reads for calls that wait in the box
	changed      map[store.Ref]bool // what has left for the store meanwhile
	unfinished   bool               // batch puts that an earlier owner may have left are to be looked for
	polled       int64              // by Engine.elapsed, as swept is
	swept        int64

	unsettled      unsettled // settings of namespaces
	backfillsSwept string    // key of the ended backfill that was looked at last

	gone     map[string]int64 // batches with a mark and without an intent, and when that was found, by Engine.elapsed
	sweeping bool             // marks are being looked through

	orphans []orphan           // attempts of terms that are over, in the order of their ends
	beaten  int64              // when a heartbeat was last given for them, by Engine.elapsed
	passing context.CancelFunc // ends the goroutine that passes on what consumers said; nil: there is none
	pause   time.Duration      // before it does

	waiters waiterCheck

	quiet        chan struct{} // closed once draining and nothing is in force
	reading      turn          // one reads the settings in it at a time
	settingsRead atomic.Uint64 // how often they were
	follow       following
	wanted       atomic.Bool // this node is to own it
	serving      atomic.Bool // it does, and answers calls
	failing      atomic.Pointer[failing]
	beganAt      atomic.Int64 // when it last began to, by Engine.elapsed
	lostLast     atomic.Int64 // when a term was last lost, by Engine.elapsed; 0 = never
	published    atomic.Pointer[store.Term]
	leased       atomic.Int64 // when the last renewal of the lease began, by Engine.elapsed
	leasedAt     atomic.Int64 // the same by the node's clock, UTC ns
	applying     atomic.Int64 // since when the store writes a batch, by Engine.elapsed; 0 = it does not
	stats        atomic.Pointer[partition.Stats]
	depths       atomic.Pointer[[]depth] // once a second
}

func newPartitionRunner(l *lane, number int) *partitionRunner {
	return &partitionRunner{e: l.e, lane: l, number: number, box: &mailbox{wake: l.ring}, ctx: context.Background(), quiet: make(chan struct{}),
		reading: newTurn(), cause: ErrNotOwner, away: true, missing: map[store.Ref]bool{}, changed: map[store.Ref]bool{}}
}

// pollEvery is the safety poll beside the exact timer.
const pollEvery = time.Second

// sweepEvery is how often finished runs are looked through for those whose retention has ended.
const sweepEvery = time.Minute

// due reports whether it is time for a round: something has come in, or a moment that was waited for.
func (p *partitionRunner) due(now int64) bool {
	if p.claiming {
		return false
	}
	wanted := p.box.answer() || p.owed
	p.owed = false
	return wanted || p.m != nil && p.wake <= now
}

// sleep is how long nothing happens by itself.
func (p *partitionRunner) sleep() time.Duration {
	at, ok := p.m.NextWake()
	if !ok {
		return pollEvery
	}
	return max(0, min(pollEvery, time.Duration(at-p.e.now())))
}

// round does everything that has come up.
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
		p.hear(in, now) // what came in before
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
	p.sendCancels() // first: a run whose lease has ended must not go to the consumer that let it end
	p.dispatch(in, now)
	p.m.PassPermits()
	p.askPermits()
	p.rest()
}

// mail is what has come in for this round: calls for which something is being read wait in the box, unless they are to be refused.
func (p *partitionRunner) mail() mail {
	if p.lane.reader == nil || p.m == nil || p.leaving || !p.wanted.Load() {
		return p.box.take()
	}
	in, unread := p.box.takeReady(p.m.Has)
	p.lane.unread = p.lane.unread || unread
	return in
}

// rest ends what has been done with the machine for now.
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

// publish shows the machine's figures to other goroutines.
func (p *partitionRunner) publish() {
	s := p.m.Stats()
	if old := p.stats.Load(); old == nil || *old != s {
		p.stats.Store(&s)
	}
	if s.InFlight == 0 && p.draining() {
		p.beQuiet()
	}
}

// beQuiet tells Drain that it need not wait for the partition any more.
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

// refuse answers mail for which there is no term, or not for long. What consumers said waits for the next one, or is passed
// on to whoever owns the partition.
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
		return // there is something for the next term to hear, or, as nobody else could, to wait for
	}
	if p.draining() && p.passing == nil { // whoever said it may not be there to say it again
		p.beQuiet()
	}
}

// refusal is why calls are refused.
func (p *partitionRunner) refusal() error {
	if p.elsewhere() || p.leaving {
		return notOwner(p.number)
	}
	if p.lost {
		return dataLoss(p.cause)
	}
	return unavailable(p.cause)
}

// elsewhere reports whether another node owns the partition, or is to.
func (p *partitionRunner) elsewhere() bool { return p.away || !p.wanted.Load() }

// poll does, once a second, what no event brings up: runs that find no consumer or no room are parked, and the history is
// swept.
func (p *partitionRunner) poll(now int64) {
	elapsed := p.e.elapsed() // or a clock that is set back would stop it
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

// end refuses what is left; the last batches are durable, or lost.
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

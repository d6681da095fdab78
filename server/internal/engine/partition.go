package engine

import (
	"time"

	"github.com/carillonhq/carillon/server/internal/health"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// partitionRunner drives one partition on this node. It holds the partition's machine and everything between
// the machine and the lane, each in a type of its own: a round calls them by name, in the order in which
// round lists them.
type partitionRunner struct {
	e      *Engine
	lane   *lane
	number int
	box    *mailbox // what comes in, from any goroutine

	// Other goroutines may ask these.
	own      ownership
	lease    lease
	health   health.Partition
	figures  figures
	settings keptSettings
	waiters  waiterCheck
	drained  bell // rings once draining and no attempt is in force

	// Of the lane's goroutine alone, whoever owns the partition.
	timers         timers
	orphans        orphans
	relay          relay
	backfillsSwept string // key of the last ended backfill that was looked at

	// Of the lane's goroutine alone, and of one term: from begin to drop (term.go).
	shard      store.Shard
	m          *partition.Machine
	replies    replies
	reads      reads
	records    roundRecords
	intake     intake
	rooms      rooms
	permits    *clusterPermits
	marks      markSweep
	unfinished bool // still to look for batch puts that an earlier owner left unfinished
}

func newPartitionRunner(l *lane, number int, reader store.Shard) *partitionRunner {
	e, box := l.e, &mailbox{wake: l.ring}
	p := &partitionRunner{
		e: e, lane: l, number: number, box: box, drained: newBell(),
		own: ownership{cause: message.ErrNotOwner}, lease: lease{validFor: int64(e.validFor())},
		relay: relay{
			number: number, box: box, peers: e.cfg.Peers, macKey: e.macKey, log: e.log, dropped: e.dropped,
			life: e.life, wg: &e.wg,
		},
	}
	p.settings = keptSettings{
		reader: reader, all: e.settings, reading: newTurn(), owned: p.own.holds, changed: e.settingsChanged,
		keeps: func(namespace string) bool { return e.ofNamespace(namespace) == p },
	}
	return p
}

// due reports whether a round should run now: mail has come in, or the wake time has been reached.
func (p *partitionRunner) due(now int64) bool {
	if p.own.is(claiming) {
		return false
	}
	owed := p.timers.requested()
	return p.box.answer() || owed || p.own.holds() && p.timers.wake <= now
}

// sleep returns how long until the machine needs a round without mail, at most pollEvery.
func (p *partitionRunner) sleep() time.Duration {
	most := pollEvery
	if p.rooms.later {
		most = askAgainAfter
	}
	at, ok := p.m.NextWake()
	if !ok {
		return most
	}
	return max(0, min(most, time.Duration(at-p.e.now())))
}

// round processes the mail and everything that is due by now. Reports come first, so that a call sees what
// they changed and an attempt that has ended is not found overdue. Nothing in a round waits for another one,
// or for a write: what is to be said once a batch is durable waits in replies. Reads may take long, and the
// lease may run out meanwhile: before each hand-out the lease is checked again.
func (p *partitionRunner) round() {
	in := p.mail()
	now := p.e.now()
	p.relay.ended(in.relayed)
	p.settleOrphans(&in)
	p.checkLease(in.overTerms)
	if !p.own.is(owned) {
		p.refuse(in)
		return
	}
	if !p.own.wanted.Load() {
		p.intake.take(&in.reported, now) // mail that came in before Assign
		p.leave()
		p.refuse(mail{calls: in.calls})
		return
	}
	p.goOn()
	p.rooms.reduced = p.lane.reduced()
	p.m.OnlyCritical(p.rooms.reduced, p.e.reach.away.Load(), now)
	p.intake.take(&in.reported, now)
	p.checkLimits(in.limits)
	p.permits.take(&in.cluster)
	p.m.Permits.ForgoKeptOf(p.permits.recalled())
	for _, t := range in.permits {
		p.m.Promote(now, t.line, t.n)
	}
	p.marks.found(in.marks, p.e.elapsed())
	p.serveCalls(in.calls, now)
	p.exchangeNotices(in.dependencyAnswers, now)
	p.m.Tick(now)
	polled := !p.rooms.reduced && p.poll(now)
	p.feed(now)
	// First, so that a run whose lease has ended does not go back to the consumer that let it end.
	p.sendCancels()
	if p.dispatch(in, now) && polled {
		p.rooms.park(p.m, now)
		p.rooms.free(p.m)
	}
	p.m.Permits.ReturnUnused()
	p.permits.ask()
	p.finish()
}

// mail returns the mail for this round. Calls whose records are still being read stay in the mailbox, unless
// the partition will refuse them anyway.
func (p *partitionRunner) mail() mail {
	if p.lane.reader == nil || !p.own.is(owned) || !p.own.wanted.Load() {
		return p.box.take()
	}
	in, unread := p.box.takeReady(p.m.Records.Has)
	p.lane.unread = p.lane.unread || unread
	return in
}

// finish ends the work with the machine for now: it lets go of touched records, sends cancels, publishes
// figures and sets the next wake time.
func (p *partitionRunner) finish() {
	if !p.own.holds() {
		return
	}
	p.records.settle()
	p.sendCancels()
	p.publish()
	p.timers.wake = p.permits.nextWake(p.e.elapsed() + int64(p.sleep()))
}

// sendCancels tells consumers which attempts to stop.
func (p *partitionRunner) sendCancels() {
	if c := p.m.Attempts.Cancels(); len(c) > 0 {
		p.e.dispatcher.Cancel(c)
	}
}

// publish makes the machine's figures visible to other goroutines.
func (p *partitionRunner) publish() {
	s := p.m.Stats()
	p.figures.show(s)
	if n := p.m.Queues.Recorded(); n != p.figures.recorded.Load() {
		p.rooms.lineUp(p.m, p.e.now())
		p.showWaiting() // so that a count made now has no run twice that waited in memory a moment ago
		p.figures.recorded.Store(n)
	}
	if s.InFlight == 0 && p.draining() {
		p.drained.ring()
	}
}

// showWaiting publishes what waits in memory, as just lined up.
func (p *partitionRunner) showWaiting() {
	p.figures.showWaiting(p.rooms.lineup, p.m.Queues.Oldest, p.m.Permits.InLine())
}

func (p *partitionRunner) draining() bool { return p.e.serving.Err() != nil }

// refuse answers mail while there is no term, or only until the hand-over ends. Reports of consumers are kept
// for the next term here, or relayed to the partition's owner.
func (p *partitionRunner) refuse(in mail) {
	for _, c := range in.calls {
		c.fail(p.own.refusal(p.number))
	}
	p.box.putBack(&in.reported)
	if o := p.orphans.overtime.Load(); o != nil && o.m != nil && len(in.slots) > 0 {
		p.box.keep(func(m *mail) { m.slots = append(in.slots, m.slots...) })
		p.lane.ring()
	}
	if p.own.is(leaving) {
		p.timers.wake = p.e.elapsed() + int64(pollEvery)
		return
	}
	dropped, shortened, waiting := 0, 0, 0
	p.box.keep(func(m *mail) {
		dropped, shortened = m.limit()
		waiting = len(m.reports) + len(m.losses)
	})
	if dropped > 0 {
		p.e.log.Warn("results were dropped, since nobody owns the partition to take them", "partition",
			p.number, "results", dropped)
		p.e.dropped(dropped)
	}
	if shortened > 0 {
		p.e.log.Warn("runs end without their results, of which too much waits, since nobody owns the partition to take them",
			"partition", p.number, "runs", shortened)
	}
	switch {
	case p.own.elsewhere():
		p.relay.start()
	case p.e.cfg.Peers == nil || waiting > 0:
		// The reports wait for the next term; or no other node could take them, so the drain waits for that
		// term.
		return
	}
	// The consumer that sent a report may be gone and unable to repeat it, so wait until relaying has ended.
	if p.draining() && !p.relay.busy() {
		p.drained.ring()
	}
}

// poll runs once a second and does what no event triggers: it checks dependencies, waiters and permits, and
// once a minute sweeps the history. It reports whether it has run.
func (p *partitionRunner) poll(now int64) bool {
	elapsed := p.e.elapsed()
	if !p.timers.pollDue(elapsed) {
		return false
	}
	p.rooms.lineUp(p.m, now)
	p.showWaiting()
	p.showTallies()
	showUses(p)
	showRates(p)
	p.checkDependencies(now)
	p.askForWaiters()
	p.m.Permits.WaitAgain()
	p.permits.poll()
	p.m.Events.Sweep(now)
	if p.timers.sweepDue(elapsed) {
		p.m.History.Sweep(now)
		p.m.Commands.Sweep(now)
		p.sweepBackfills(now)
		p.sweepMarkers()
		sweepAudit(p, now, true)
	} else if p.timers.sweepOn {
		sweepAudit(p, now, false)
	}
	return true
}

// end refuses the remaining mail and callers. The last batches are durable by now, or lost.
func (p *partitionRunner) end() {
	endOvertime(p)
	p.refuseAtEnd(p.box.close())
	p.replies.refuse(errStopping())
	p.releaseLast()
}

func (p *partitionRunner) refuseAtEnd(in mail) {
	for _, c := range in.calls {
		c.fail(p.e.errStopping())
	}
}

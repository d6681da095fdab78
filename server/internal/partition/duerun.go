package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// What a due run does, from top to bottom:
//
//	Tick, wakeUp    its timer fires; if the run before is unfinished, the overlap rule decides (overlap.go)
//	beginRun        the misfire rule chooses which time runs; that run opens, and the job's next time is set
//	start           it waits in the queue of its target (due.go, ready.go)
//	Deliver         the engine has a slot for its queue: the run takes a permit, and an attempt goes out
//	Report          the consumer says how the attempt ended
//	fail            the run waits for its next attempt, or is exhausted (retry.go)
//	finish          the run is over: it goes to the history, and its job waits for its next time
//
// What ends a run by the clock is in overdue.go.

// Tick does what has become due by now: runs become due, leases and timeouts end, attempts become old enough
// to be made durable, lives end.
func (m *Machine) Tick(now int64) {
	if now < m.agenda.ticked {
		m.Attempts.outdate(now)
	}
	m.agenda.ticked = now
	for len(m.agenda.timers) > 0 && m.agenda.timers[0].wake <= now {
		e := m.agenda.timers[0].e
		m.agenda.set(e, 0)
		m.runs.wakeUp(e, now)
	}
	m.BackfillRuns.work(now)
}

// wakeUp does what e's timer was armed for.
func (rs *runs) wakeUp(e *entry, now int64) {
	s, next := &e.state, rs.agenda.overlapDue(e)
	switch {
	case next != 0 && next <= now:
		rs.overlap(e, now)
	case e.place == running:
		rs.overdue(e, now)
	case e.queued():
		rs.agenda.rearm(e)
	case s.Run.Live && s.Phase == carillon.PhaseStaged:
		if e.expired(now) {
			rs.expireRun(e, now)
		} else {
			rs.agenda.rearm(e)
		}
	case s.Run.Live && s.Run.Due <= now:
		rs.due.enqueue(e, now)
	case s.Run.Live:
		rs.agenda.rearm(e)
	case s.Paused:
		rs.endLife(e, now)
	case s.Next != 0 && rs.agenda.idleDue(e) <= now:
		rs.beginRun(e, now)
	default:
		rs.endOrRearm(e)
	}
}

// beginRun begins the run that is due. It is written only if it does not end soon: until then the next time
// in the store says enough.
func (rs *runs) beginRun(e *entry, now int64) {
	if rs.out.awaitsCommit(e) || rs.records.specMissing(e) {
		rs.due.block(e)
		return
	}
	if rs.contents.unscheduled(e) {
		rs.suspend(e, now)
		return
	}
	if rs.due.examine(e, now); e.state.Run.Live {
		return // it was in doubt, and examine has begun it
	}
	if p := rs.contents.timetableOf(e); p.excludes(e.state.Next) {
		rs.skipTimes(e, p.passOver(now), now)
		rs.endOrRearm(e)
		return
	}
	if !rs.released(e, now) {
		return
	}
	t := rs.choose(e, now)
	if t == 0 {
		rs.due.touch(e)
		rs.endOrRearm(e)
		return
	}
	rs.due.start(e, t, now)
}

// start makes the scheduled time t the job's unfinished run, and enqueues it.
func (d *dueRuns) start(e *entry, t, now int64) {
	d.open(e, t, now)
	d.enqueue(e, now)
}

// open is start without the enqueuing.
func (d *dueRuns) open(e *entry, t, now int64) {
	s, p := &e.state, d.agenda.contents.timetableOf(e)
	s.Run = store.RunState{Live: true, Scheduled: t, Due: p.due(t), Cause: carillon.CauseSchedule}
	p.begin(t)
	d.closeWaits(e, now)
	d.records.live[s.Identity(d.cfg.Partition)] = e
}

// Deliver hands out at most n due runs of a queue as attempts, which it appends to ds; the caller has n slots
// for them. If first is set, the run is under a limit, or a consumer will complete it by its token, the
// attempt is made durable before it comes out of Granted, and its slot stays taken until then. Slots are left
// unused if fewer runs wait that may begin. Of overdue runs no more leave than bound says; nil: any number.
func (m *Machine) Deliver(ds []delivery.Delivery, now int64, q delivery.Queue, n int, first bool,
	bound *Bound) ([]delivery.Delivery, delivery.Rest) {
	st := m.Queues.queues[q]
	if st == nil {
		return ds, delivery.Rest{Queue: q, Unused: n}
	}
	ds = slices.Grow(ds, min(n, st.len()))
	for n > 0 {
		e := m.Queues.next(st, now, bound)
		if e == nil {
			break
		}
		line, ok := m.Permits.take(e)
		if !ok {
			m.Permits.countThrottled(e, line)
		}
		m.due.unlist(e)
		if !ok {
			m.due.setAside(e, line)
			continue
		}
		n--
		bound.charge(e)
		m.Permits.charge(e)
		d := m.Attempts.grant(e, q, now)
		e.state.Run.Kept = d.Target.AwaitsCompletion()
		if first || e.permits != nil || e.state.Run.Kept {
			m.Attempts.deliverWhenDurable(e, d, now)
			continue
		}
		m.Attempts.begun(e, &d, now)
		ds = append(ds, d)
	}
	return ds, m.Queues.rest(q, n, now)
}

// Report applies a consumer's report to the attempt that the token names.
func (m *Machine) Report(now int64, tok message.Token, r *delivery.Report) Verdict {
	m.Begin()
	if m.History.full() {
		m.seal()
	}
	e := m.Records.live[tok.Run]
	switch {
	case e == nil:
		return Missing
	case m.Records.specMissing(e) || (r.PauseJob && m.Records.specMissing(e.owner())):
		return Missing
	}
	m.Attempts.acknowledge(e, tok, now)
	switch {
	case !e.names(tok):
		return Stale
	case e.place != running:
		return m.Attempts.again(e, r)
	}
	switch {
	case r.Outcome == carillon.OutcomeProgress:
		return m.Attempts.progress(e, now, r.Progress)
	case r.Async && (r.Message == "" || e.state.Run.ReportedAt != 0):
		// After a 202, or the broker's acknowledgement, nobody watches the timeout any more, so the attempt ends
		// at it exactly, without the grace.
		e.state.Run.Deadline = min(e.state.Run.Deadline, e.attempt.granted+int64(e.job().TimeoutOrDefault()))
		e.attempt.lease, e.attempt.awaited = e.state.Run.Deadline, true
		if !e.traits().endsWithStream {
			e.state.Run.Kept = false
		}
		m.Attempts.keep(e)
		m.agenda.rearm(e)
	case r.Outcome == carillon.OutcomeSuccess:
		m.Attempts.stopDuplicates(e)
		m.Attempts.endTrace(e, now, delivery.AttemptSucceeded, "", r)
		m.Attempts.end(e, true)
		m.runs.finish(e, now, ending{status: carillon.RunSucceeded, report: r})
	case r.Outcome == carillon.OutcomeReschedule:
		m.Attempts.stopDuplicates(e)
		m.runs.reschedule(e, now, r)
	default:
		m.Attempts.stopDuplicates(e)
		owner := e.owner()
		m.runs.fail(e, now, failure{message: messageOf(r), permanent: r.Permanent, after: r.RetryAfter, report: r})
		if r.PauseJob && owner != nil && owner.place != gone {
			m.runs.pause(owner, now, messageOf(r))
		}
	}
	m.out.await(m.out.seq)
	return Accepted
}

// finish ends the run: it goes to the history, and its job waits for its next time.
func (rs *runs) finish(e *entry, now int64, end ending) {
	delete(rs.records.live, e.state.Identity(rs.cfg.Partition))
	rs.keepRun(e, now, end)
	if job := e.owner(); end.status == carillon.RunFailed || end.status == carillon.RunDead {
		defer rs.pauseFailing(job, now)
	}
	if e.ref.Seq != 0 {
		rs.backfills.runEnded(e, now, end.status)
		rs.finishPending(e)
		return
	}
	e.state.Phase = carillon.PhaseScheduled
	e.state.Run = store.RunState{}
	rs.skipOverlapped(e, now)
	rs.due.touch(e)
	rs.endOrRearm(e)
}

// finishPending removes a pending run. It also removes the job if the run was the last thing the job waited
// for.
func (rs *runs) finishPending(e *entry) {
	parent := e.parent
	e.state.Run = store.RunState{}
	rs.window.remove(e)
	if parent == nil || parent.place == gone {
		return
	}
	parent.state.Pending--
	rs.out.note(parent)
	if parent.ended() {
		rs.window.remove(parent)
	}
}

// endOrRearm removes a job that has nothing left to do and waits for nothing, or sets its timer.
func (rs *runs) endOrRearm(e *entry) {
	if e.ref.Seq == 0 && e.place == idle && e.ended() {
		rs.window.remove(e)
		return
	}
	rs.agenda.rearm(e)
}

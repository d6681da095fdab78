package partition

import (
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Tick does what has become due by now: runs become due, leases and timeouts end, attempts become old enough
// to be made durable, lives end.
func (m *Machine) Tick(now int64) {
	if now < m.agenda.ticked {
		m.Attempts.outdate(now)
	}
	m.agenda.ticked = now
	for len(m.agenda.timers) > 0 && m.agenda.timers[0].wake <= now {
		e := m.agenda.timers.first()
		m.agenda.set(e, 0)
		m.wakeUp(e, now)
	}
	m.workBackfills(now)
}

// wakeUp does what e's timer was armed for.
func (m *Machine) wakeUp(e *entry, now int64) {
	s := &e.state
	switch {
	case m.agenda.overlapping(e, now):
		m.overlap(e, now)
	case e.place == running:
		m.overdue(e, now)
	case e.queued():
		m.agenda.rearm(e)
	case s.Run.Live && s.Phase == carillon.PhaseStaged:
		if e.expired(now) {
			m.expireRun(e, now)
		} else {
			m.agenda.rearm(e)
		}
	case s.Run.Live && s.Run.Due <= now:
		m.due.enqueue(e, now)
	case s.Run.Live:
		m.agenda.rearm(e)
	case s.Paused:
		m.endLife(e, now)
	case s.Next != 0 && m.agenda.idleDue(e) <= now:
		m.beginRun(e, now)
	default:
		m.endOrRearm(e)
	}
}

// overdue handles an attempt in force whose lease, timeout or age has reached its limit.
func (m *Machine) overdue(e *entry, now int64) {
	over := e.over() <= now
	switch {
	case over && m.Records.specMissing(e):
		m.due.block(e)
	case over && e.putsOff(now):
		m.agenda.rearm(e)
	case over && e.state.Run.Kept:
		m.Attempts.miss(e, now)
	case e.state.Run.Deadline <= now:
		m.Attempts.stopUnheard(e)
		m.fail(e, now, failure{message: "timeout: no result within " + e.job().TimeoutOrDefault().String()})
	case e.attempt.lease <= now:
		m.Attempts.stopUnheard(e)
		m.fail(e, now, failure{message: "lease expired: no beat within " + e.job().LeaseOrDefault().String(), lost: true})
	case !e.attempt.current && e.attempt.granted+int64(m.cfg.GrantAfter) <= now && m.Attempts.mayKeep(e, now):
		m.Attempts.keep(e)
		m.agenda.rearm(e)
	default:
		m.agenda.rearm(e)
	}
}

// beginRun begins the run that is due. It is written only if it does not end soon: until then the next time
// in the store says enough.
func (m *Machine) beginRun(e *entry, now int64) {
	if m.out.awaitsCommit(e) || m.Records.specMissing(e) {
		m.due.block(e)
		return
	}
	if m.contents.unscheduled(e) {
		m.suspend(e, now)
		return
	}
	if m.due.examine(e, now); e.state.Run.Live {
		return // it was in doubt, and examine has begun it
	}
	if !m.released(e, now) {
		return
	}
	t := m.choose(e, now)
	if t == 0 {
		m.due.touch(e)
		m.endOrRearm(e)
		return
	}
	m.due.start(e, t, now)
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

// endOrRearm removes a job that has nothing left to do, or sets its timer.
func (m *Machine) endOrRearm(e *entry) {
	if e.ref.Seq == 0 && e.ended() {
		m.Window.remove(e)
		return
	}
	m.agenda.rearm(e)
}

// suspend pauses a recurring job whose schedule can no longer be parsed, for example because its time zone
// was removed from the node's data. The job keeps its next time, for when that is mended.
func (m *Machine) suspend(e *entry, now int64) {
	_, err := e.job().ParseSchedule()
	m.pause(e, now, fmt.Sprintf("paused because the schedule cannot be read any more: %v", err))
}

// endLife removes a job whose life has ended while it was paused.
func (m *Machine) endLife(e *entry, now int64) {
	switch {
	case e.state.Expires == 0 || now <= e.state.Expires:
		m.agenda.rearm(e)
		return
	case m.Records.specMissing(e):
		m.due.block(e)
		return
	}
	reason := ReasonPaused
	if !e.job().Recurring() {
		reason = ReasonExpired
	}
	m.skipLife(e, now, reason)
	m.due.touch(e)
	m.endOrRearm(e)
}

// expireRun ends a run that waited for a consumer until its job's life was over.
func (m *Machine) expireRun(e *entry, now int64) {
	if m.Records.specMissing(e) {
		m.due.block(e)
		return
	}
	end := ending{status: carillon.RunSkipped, reason: ReasonExpired}
	if e.state.Run.Attempt > 0 || e.doubtful() { // it waited for a retry, and gets none
		j := e.job()
		end.status = exhausted(j.FailurePolicy.Resolve(j.Recurring()))
	}
	m.skipLife(e, now, ReasonExpired)
	m.finish(e, now, end)
}

// remove deletes the record. It stays in memory until the delete is durable.
func (w *Window) remove(e *entry) {
	w.unlist(e)
	e.move(gone)
	e.decoded, e.sched = nil, nil
	w.agenda.set(e, 0)
	w.due.touch(e)
	if e.ref.Seq == 0 {
		w.records.deleting[e.ref.Key] = w.out.seq
		w.due.permits.releaseAll(e.ref.Key)
	}
	if e.parent != nil {
		if e.settleCounts(e.parent, true) && e.parent.place != gone {
			w.out.note(e.parent)
		}
		e.parent.children--
		e.parent = nil
	} else if e.ref.Seq != 0 {
		w.records.disown(e)
	}
}

// unlist takes e out of its queue, its line or the attempts in force.
func (w *Window) unlist(e *entry) {
	switch e.place {
	case ready, aside:
		w.due.dequeue(e)
	case running:
		w.attempts.drop(e)
	case blocked:
		e.move(idle)
	case idle, gone:
	}
	if e.state.Run.Live {
		delete(w.records.live, e.state.Identity(w.cfg.Partition))
	}
}

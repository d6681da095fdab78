package partition

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Tick does what has become due by now: runs become due, leases and timeouts end, attempts become old enough
// to be made durable, lives end.
func (m *Machine) Tick(now int64) {
	if now < m.ticked {
		m.outdate(now)
	}
	m.ticked = now
	for len(m.timers) > 0 && m.timers[0].wake <= now {
		e := m.timers.first()
		m.setWake(e, 0)
		m.wakeUp(e, now)
	}
	m.workBackfills(now)
}

// wakeUp does what e's timer was armed for.
func (m *Machine) wakeUp(e *entry, now int64) {
	s := &e.state
	switch {
	case m.overlapping(e, now):
		m.overlap(e, now)
	case e.place == running:
		m.overdue(e, now)
	case e.place == ready || e.place == aside:
		m.rearm(e)
	case s.Run.Live && s.Phase == carillon.PhaseStaged:
		if e.expired(now) {
			m.expireRun(e, now)
		} else {
			m.rearm(e)
		}
	case s.Run.Live && s.Run.Due <= now:
		m.enqueue(e, now)
	case s.Run.Live:
		m.rearm(e)
	case s.Paused:
		m.endLife(e, now)
	case s.Next != 0 && m.idleDue(e) <= now:
		m.beginRun(e, now)
	default:
		m.endOrRearm(e)
	}
}

// overdue handles an attempt in force whose lease, timeout or age has reached its limit.
func (m *Machine) overdue(e *entry, now int64) {
	over := e.over() <= now
	switch {
	case over && m.specMissing(e):
		m.block(e)
	case over && m.waitsForWords(e, now):
		m.rearm(e)
	case over && e.state.Run.Kept:
		m.miss(e, now)
	case e.state.Run.Deadline <= now:
		m.stopUnheard(e)
		m.fail(e, now, failure{message: "timeout: no result within " + m.jobOf(e).TimeoutOrDefault().String()})
	case e.lease <= now:
		m.stopUnheard(e)
		m.fail(e, now, failure{message: "lease expired: no beat within " + m.jobOf(e).LeaseOrDefault().String(), lost: true})
	case !e.durable && e.granted+int64(m.cfg.GrantAfter) <= now && m.mayKeep(e, now):
		m.keepGrant(e)
		m.rearm(e)
	default:
		m.rearm(e)
	}
}

// outdate is called when the clock was set back. The age of attempts cannot be told by it any more, so each
// attempt in force that is not durable counts as old enough to be, and the age budget as unspent. A step back
// that is smaller than the time since the last Tick goes unnoticed. Attempts are then made durable later, by
// no more than that.
func (m *Machine) outdate(now int64) {
	since := now - int64(m.cfg.GrantAfter)
	m.keepAt = min(m.keepAt, since)
	for _, e := range m.live {
		if e.place == running && !e.durable {
			e.granted = min(e.granted, since)
			m.setWake(e, now)
		}
	}
}

// keepGrant makes the attempt in force durable as it stands.
func (m *Machine) keepGrant(e *entry) {
	e.durable = true
	e.state.Run.Lease = e.lease
	m.touch(e)
}

// keepLatest times GrantAfter is the age at which an attempt is made durable whatever the budget.
const keepLatest = 10

// mayKeep reports whether e's attempt may be made durable for its age, and if so counts it. When so much is
// due that results take longer than GrantAfter, writing every attempt would double the store's work and make
// them take longer still. So there is a budget of GrantsKept attempts per GrantAfter, except for the really
// old ones.
func (m *Machine) mayKeep(e *entry, now int64) bool {
	if now-e.granted >= keepLatest*int64(m.cfg.GrantAfter) {
		return true
	}
	after, each := int64(m.cfg.GrantAfter), int64(m.cfg.GrantAfter)/int64(m.cfg.GrantsKept)
	if m.keepAt > now {
		return false
	}
	m.keepAt = max(m.keepAt, now-after) + each
	return true
}

// keepDue returns when e's attempt is next old enough to be made durable: after each multiple of GrantAfter.
func (m *Machine) keepDue(e *entry) int64 {
	after := int64(m.cfg.GrantAfter)
	return e.granted + after*(1+max(0, m.ticked-e.granted)/after)
}

// beginRun begins the run that is due. It is written only if it does not end soon: until then the next time
// in the store says enough.
func (m *Machine) beginRun(e *entry, now int64) {
	if m.awaitsCommit(e) || m.specMissing(e) {
		m.block(e)
		return
	}
	if m.unscheduled(e) {
		m.suspend(e, now)
		return
	}
	if m.examine(e, now); e.state.Run.Live {
		return // it was in doubt, and examine has begun it
	}
	if !m.released(e, now) {
		return
	}
	t := m.choose(e, now)
	if t == 0 {
		m.touch(e)
		m.endOrRearm(e)
		return
	}
	m.start(e, t, now)
}

// start makes the scheduled time t the job's unfinished run, and enqueues it.
func (m *Machine) start(e *entry, t, now int64) {
	m.open(e, t, now)
	m.enqueue(e, now)
}

// open is start without the enqueuing.
func (m *Machine) open(e *entry, t, now int64) {
	s, p := &e.state, m.timetableOf(e)
	s.Run = store.RunState{Live: true, Scheduled: t, Due: p.due(t), Cause: carillon.CauseSchedule}
	p.begin(t)
	m.useUp(e, now)
	m.live[s.Identity(m.cfg.Partition)] = e
}

// endOrRearm removes a job that has nothing left to do, or sets its timer.
func (m *Machine) endOrRearm(e *entry) {
	if e.ref.Seq == 0 && e.ended() {
		m.remove(e)
		return
	}
	e.place = idle
	m.rearm(e)
}

// suspend pauses a recurring job whose schedule can no longer be parsed, for example because its time zone
// was removed from the node's data. The job keeps its next time, for when that is mended.
func (m *Machine) suspend(e *entry, now int64) {
	_, err := m.jobOf(e).ParseSchedule()
	m.pause(e, now, fmt.Sprintf("paused because the schedule cannot be read any more: %v", err))
}

// endLife removes a job whose life has ended while it was paused.
func (m *Machine) endLife(e *entry, now int64) {
	switch {
	case e.state.Expires == 0 || now <= e.state.Expires:
		m.rearm(e)
		return
	case m.specMissing(e):
		m.block(e)
		return
	}
	reason := ReasonPaused
	if !m.jobOf(e).Recurring() {
		reason = ReasonExpired
	}
	m.skipLife(e, now, reason)
	m.touch(e)
	m.endOrRearm(e)
}

// expireRun ends a run that waited for a consumer until its job's life was over.
func (m *Machine) expireRun(e *entry, now int64) {
	if m.specMissing(e) {
		m.block(e)
		return
	}
	end := ending{status: carillon.RunSkipped, reason: ReasonExpired}
	if e.state.Run.Attempt > 0 || e.doubtful() { // it waited for a retry, and gets none
		j := m.jobOf(e)
		end.status = exhausted(j.FailurePolicy.Resolve(j.Recurring()))
	}
	m.skipLife(e, now, ReasonExpired)
	m.finish(e, now, end)
}

// remove deletes the record. It stays in memory until the delete is durable.
func (m *Machine) remove(e *entry) {
	m.unlist(e)
	e.gone, e.job, e.sched = true, nil, nil
	m.setWake(e, 0)
	m.touch(e)
	if e.ref.Seq == 0 {
		m.deleting[e.ref.Key] = m.out.seq
		m.releaseAll(e.ref.Key)
	}
	if e.parent != nil {
		if e.settleCounts(e.parent, true) && !e.parent.gone {
			m.note(e.parent)
		}
		e.parent.children--
		e.parent = nil
	} else if e.ref.Seq != 0 {
		m.disown(e)
	}
}

// unlist takes e out of its queue, its line or the attempts in force.
func (m *Machine) unlist(e *entry) {
	switch e.place {
	case ready, aside:
		m.dequeue(e)
	case running:
		m.letGo(e)
	}
	e.place = idle
	if e.state.Run.Live {
		delete(m.live, e.state.Identity(m.cfg.Partition))
	}
}

// heartbeatInterval returns how often a worker sends heartbeats: four times a lease, at most 10 s apart.
func heartbeatInterval(lease time.Duration) time.Duration { return min(lease/4, 10*time.Second) }

package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
)

// SetPaused pauses or resumes a job, and keeps a note with it.
func (m *Machine) SetPaused(now int64, key carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	e := m.find(key)
	if e == nil {
		return carillon.Job{}, notFound(key)
	}
	if p.Note != m.jobOf(e).Note && (p.Note != "" || !p.Paused) {
		m.annotate(e, p.Note)
	}
	if !p.Paused && p.CatchUp && e.state.Paused {
		m.resumePassed(e, now)
	}
	m.changePaused(e, p.Paused, now)
	return m.view(e), nil
}

func (m *Machine) annotate(e *entry, note string) {
	m.touch(e)
	j := *m.jobOf(e)
	j.Note = note
	m.setSpec(e, EncodeSpec(&j))
	e.fresh = true
}

// pause stops a job from beginning runs. The note says why.
func (m *Machine) pause(e *entry, now int64, note string) {
	m.annotate(e, note)
	m.changePaused(e, true, now)
}

// unbegin takes back the scheduled runs that have had no attempt, because a paused job fires nothing. Runs
// that have had an attempt go on, and so do those that a caller asked for. A run cannot begin again if a
// later time has begun: it is skipped. If the job's schedule has ended, the job may end with it.
func (m *Machine) unbegin(job *entry, now int64) {
	var passed []*entry
	for _, e := range m.runsOf(job) {
		switch {
		case !e.untried() || (e != job && e.own()) || job.state.Anchor == 0: // redriven runs were asked for
		case e != job || m.wentOn(job):
			passed = append(passed, e)
		default:
			m.takeBack(job)
		}
	}
	for _, e := range passed {
		m.passRun(e, now)
	}
}

// takeBack makes the time of the job's run the next time again.
func (m *Machine) takeBack(job *entry) {
	m.revoke(job)
	m.unlist(job)
	s := &job.state
	s.Next, s.Begun = s.Run.Scheduled, max(s.Begun, 1)-1 // a put restarts the count
	giveBack(s)
	s.Run, s.Phase = store.RunState{}, carillon.PhaseScheduled
}

// passRun skips a run that no consumer has had, because its job was paused.
func (m *Machine) passRun(e *entry, now int64) {
	end := ending{status: carillon.RunSkipped, reason: ReasonPaused}
	m.revoke(e)
	m.unrepeat(e, now)
	m.unlist(e)
	if e.ref.Seq != 0 {
		m.finish(e, now, end)
		return
	}
	m.keepRun(e, now, end)
	e.state.Run, e.state.Phase = store.RunState{}, carillon.PhaseScheduled
}

// untried reports whether e's run is a scheduled one that no consumer has had. Its first attempt may be a
// pending delivery.
func (e *entry) untried() bool {
	r := &e.state.Run
	return r.Live && r.Cause == carillon.CauseSchedule && r.Doubt.Term.IsZero() && (r.Attempt == 0 || (r.Attempt == 1 && e.pendingDelivery != 0))
}

// wentOn reports whether a scheduled time after that of the job's run has already begun or been skipped. A
// time of an earlier schedule counts as before all times of the present one.
func (m *Machine) wentOn(e *entry) bool {
	s, sched := &e.state, m.scheduleOf(e)
	switch {
	case sched == nil:
		return false
	case !isTime(sched, s.Run.Scheduled, s.Anchor):
		return true
	case s.Next == 0:
		return (s.Last.Cause == carillon.CauseSchedule && s.Last.Scheduled > s.Run.Scheduled) || m.laterBeside(e)
	}
	next, ok := sched.Next(toTime(s.Run.Scheduled), toTime(s.Anchor))
	return !ok || next.UnixNano() != s.Next
}

// isTime reports whether t is one of the schedule's times.
func isTime(s *schedule.Schedule, t, anchor int64) bool {
	next, ok := s.Next(toTime(t-1), toTime(anchor))
	return ok && next.UnixNano() == t
}

// laterBeside reports whether a scheduled run of a later time goes on beside the job's own. The overlap rule
// may have been another one when it began. Runs that are not in memory count if the rule is OverlapAllow.
func (m *Machine) laterBeside(job *entry) bool {
	if int(job.state.Pending) > int(job.children) && m.jobOf(job).Overlap == carillon.OverlapAllow {
		return true
	}
	return slices.ContainsFunc(m.runsOf(job), func(e *entry) bool {
		r := &e.state.Run
		return e != job && !e.own() && r.Cause == carillon.CauseSchedule && r.Scheduled > job.state.Run.Scheduled
	})
}

// resumePassed applies the misfire rule to the times that came while a job was paused. Then the job is
// resumed.
func (m *Machine) resumePassed(e *entry, now int64) {
	m.touch(e)
	e.state.Paused = false
	if s := m.scheduleOf(e); s != nil && e.state.Next != 0 && m.nextDue(e) <= now {
		m.catchUp(e, s, now)
	}
	if e.place == idle && e.ended() {
		m.remove(e)
		return
	}
	m.rearm(e)
}

// changePaused pauses or resumes a job; it does nothing if that changes nothing. A resumed job goes on from
// now: the times that came meanwhile are recorded as paused.
func (m *Machine) changePaused(e *entry, paused bool, now int64) {
	if e.state.Paused == paused {
		return
	}
	m.touch(e)
	e.state.Paused = paused
	unwait(&e.state)
	if paused {
		m.unbegin(e, now)
	}
	if e.gone {
		return
	}
	if s := m.scheduleOf(e); !paused && s != nil && e.state.Next != 0 && m.nextDue(e) <= now {
		m.passOver(e, s, e.state.Next, m.newestDue(e, s, e.state.Next, now), now, ReasonPaused)
	}
	if e.place == idle && e.ended() {
		m.remove(e)
		return
	}
	m.rearm(e)
}

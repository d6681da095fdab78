package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// SetPaused pauses or resumes a job, and keeps a note with it.
func (m *Machine) SetPaused(now int64, key carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	e := m.Records.find(key)
	if e == nil {
		return carillon.Job{}, notFound(key)
	}
	if p.Note != e.job().Note && (p.Note != "" || !p.Paused) {
		m.annotate(e, p.Note)
	}
	m.changePaused(e, p.Paused, p.CatchUp, now)
	return m.Records.view(e), nil
}

func (m *Machine) annotate(e *entry, note string) {
	m.due.touch(e)
	j := *e.job()
	j.Note = note
	m.contents.set(e, EncodeSpec(&j))
	e.fresh = true
}

// pause stops a job from beginning runs. The note says why.
func (m *Machine) pause(e *entry, now int64, note string) {
	m.annotate(e, note)
	m.changePaused(e, true, false, now)
}

// unbegin takes back the scheduled runs that have had no attempt, because a paused job fires nothing. Runs
// that have had an attempt go on, and so do those that a caller asked for. A run cannot begin again if a
// later time has begun: it is skipped. If the job's schedule has ended, the job may end with it.
func (m *Machine) unbegin(job *entry, now int64) {
	var ends []*entry
	f := m.Records.familyOf(job)
	for _, e := range f.runs {
		switch {
		case !e.untried() || (e != job && e.own()) || job.state.Anchor == 0: // redriven runs were asked for
		case e != job || m.contents.timetableOf(job).wentOn(f.laterBeside(job.job().Overlap)):
			ends = append(ends, e)
		default:
			m.takeBack(job, now)
		}
	}
	for _, e := range ends {
		m.skipRun(e, now)
	}
}

// takeBack makes the time of the job's run the next time again.
func (m *Machine) takeBack(job *entry, now int64) {
	m.detach(job, now, false)
	s := &job.state
	s.Next, s.Begun = s.Run.Scheduled, max(s.Begun, 1)-1 // a put restarts the count
	giveBack(s)
	s.Run, s.Phase = store.RunState{}, carillon.PhaseScheduled
}

// skipRun skips a run that no consumer has had, because its job was paused.
func (m *Machine) skipRun(e *entry, now int64) {
	end := ending{status: carillon.RunSkipped, reason: ReasonPaused}
	m.detach(e, now, true)
	if e.ref.Seq != 0 {
		m.finish(e, now, end)
		return
	}
	m.closeRun(e, now, end)
}

// untried reports whether e's run is a scheduled one that no consumer has had. Its first attempt may be a
// pending delivery.
func (e *entry) untried() bool {
	r := &e.state.Run
	return r.Live && r.Cause == carillon.CauseSchedule && r.Doubt.Term.IsZero() && (r.Attempt == 0 || (r.Attempt == 1 && e.attempt.pending != 0))
}

// changePaused pauses or resumes a job; it does nothing if that changes nothing. A resumed job goes on from now:
// the times that came meanwhile are recorded as paused, or with catchUp the misfire rule applies to them.
func (m *Machine) changePaused(e *entry, paused, catchUp bool, now int64) {
	if e.state.Paused == paused {
		return
	}
	m.due.touch(e)
	e.state.Paused = paused
	unwait(&e.state)
	if paused {
		m.unbegin(e, now)
	} else if p := m.contents.timetableOf(e); p.sched != nil && e.state.Next != 0 && m.contents.nextDue(e) <= now {
		if catchUp {
			m.skipTimes(e, p.catchUp(now), now)
		} else {
			m.skipTimes(e, p.skipDue(now, ReasonPaused), now)
		}
	}
	m.removeOrRearm(e)
}

// removeOrRearm removes a job that has nothing left to do and waits for nothing, or sets its timer.
func (m *Machine) removeOrRearm(e *entry) {
	if e.place == idle && e.ended() {
		m.Window.remove(e)
		return
	}
	m.agenda.rearm(e)
}

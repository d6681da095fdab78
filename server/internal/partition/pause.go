package partition

import (
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// SetPaused pauses or resumes a job, and keeps a note with it.
func (js *Jobs) SetPaused(now int64, key carillon.Key, p carillon.PauseOptions) (carillon.Job, error) {
	e := js.records.find(key)
	if e == nil {
		return carillon.Job{}, notFound(key)
	}
	if p.Note != e.job().Note && (p.Note != "" || !p.Paused) {
		js.runs.annotate(e, p.Note)
	}
	js.runs.changePaused(e, p.Paused, p.CatchUp, now)
	return js.records.view(e), nil
}

func (rs *runs) annotate(e *entry, note string) {
	rs.due.touch(e)
	j := *e.job()
	j.Note = note
	rs.contents.set(e, EncodeSpec(&j))
	e.fresh = true
}

// JobPaused is a job that was paused because of what became of its runs, or of its schedule.
type JobPaused struct {
	Key  carillon.Key
	Note string // why
}

// Paused returns the jobs that were paused, once that is durable, and forgets them.
func (js *Jobs) Paused() []JobPaused {
	p := js.out.told
	js.out.told = nil
	return p
}

// pause stops a job from beginning runs. The note says why.
func (rs *runs) pause(e *entry, now int64, note string) {
	rs.annotate(e, note)
	if !e.state.Paused {
		rs.out.paused = append(rs.out.paused, JobPaused{e.ref.Key, note})
	}
	rs.changePausedBecause(e, true, false, now, note)
}

// failuresAfter returns how many runs in a row have failed when another one ends. It counts no further than
// pause_after may be.
func failuresAfter(before uint16, status carillon.RunStatus) uint16 {
	switch status {
	case carillon.RunSucceeded:
		return 0
	case carillon.RunFailed, carillon.RunDead:
		return max(before, before+1)
	}
	return before // it neither succeeded nor failed
}

// pauseFailing pauses a job of which as many runs in a row have failed as its failure policy says. All runs
// of the job count, in the order in which they end: those by triggers and backfills, too.
func (rs *runs) pauseFailing(job *entry, now int64) {
	if job == nil || job.place == gone || job.state.Paused {
		return
	}
	after, n := job.job().FailurePolicy.PauseAfter, uint32(job.state.Last.Failures)
	if after == 0 || n < after {
		return
	}
	why := "a run has"
	if n > 1 {
		why = fmt.Sprintf("%d runs in a row have", n)
	}
	rs.pause(job, now, fmt.Sprintf("paused because %s failed: failure_policy.pause_after is %d", why, after))
}

// unbegin takes back the scheduled runs that have had no attempt, because a paused job fires nothing. Runs
// that have had an attempt go on, and so do those that a caller asked for. A run cannot begin again if a
// later time has begun: it is skipped. If the job's schedule has ended, the job may end with it.
func (rs *runs) unbegin(job *entry, now int64) {
	var ends []*entry
	f := rs.records.familyOf(job)
	for _, e := range f.runs {
		switch {
		case !e.untried() || (e != job && e.own()) || job.state.Anchor == 0: // redriven runs were asked for
		case e != job || rs.contents.timetableOf(job).wentOn(f.laterBeside(job.job().Overlap)):
			ends = append(ends, e)
		default:
			rs.takeBack(job, now)
		}
	}
	for _, e := range ends {
		rs.skipRun(e, now)
	}
}

// takeBack makes the time of the job's run the next time again.
func (rs *runs) takeBack(job *entry, now int64) {
	rs.detach(job, now, false)
	s := &job.state
	s.Next, s.Begun = s.Run.Scheduled, max(s.Begun, 1)-1 // a put restarts the count
	giveBack(s)
	s.Run, s.Phase = store.RunState{}, carillon.PhaseScheduled
}

// skipRun skips a run that no consumer has had, because its job was paused.
func (rs *runs) skipRun(e *entry, now int64) {
	end := ending{status: carillon.RunSkipped, reason: ReasonPaused}
	rs.detach(e, now, true)
	if e.ref.Seq != 0 {
		rs.finish(e, now, end)
		return
	}
	rs.closeRun(e, now, end)
}

// untried reports whether e's run is a scheduled one that no consumer has had. Its first attempt may be a
// pending delivery.
func (e *entry) untried() bool {
	r := &e.state.Run
	return r.Live && r.Cause == carillon.CauseSchedule && r.Doubt.Term.IsZero() &&
		(r.Attempt == 0 || (r.Attempt == 1 && e.attempt.pending != 0))
}

// changePaused pauses or resumes a job; it does nothing if that changes nothing. A resumed job goes on from
// now: the times that came meanwhile are recorded as paused, or with catchUp the misfire rule applies to
// them.
func (rs *runs) changePaused(e *entry, paused, catchUp bool, now int64) {
	rs.changePausedBecause(e, paused, catchUp, now, "")
}

// changePausedBecause is changePaused with a reason that is none of a caller's.
func (rs *runs) changePausedBecause(e *entry, paused, catchUp bool, now int64, why string) {
	if e.state.Paused == paused {
		return
	}
	rs.due.touch(e)
	e.state.Paused = paused
	rs.out.events.tellPaused(now, e, why)
	unwait(&e.state)
	if paused {
		rs.unbegin(e, now)
	} else {
		e.state.Last.Failures = 0
		rs.skipPaused(e, now, catchUp)
	}
	rs.endOrRearm(e)
}

// skipPaused records what becomes of the times that came while the job was paused.
func (rs *runs) skipPaused(e *entry, now int64, catchUp bool) {
	p := rs.contents.timetableOf(e)
	switch {
	case p.sched == nil || e.state.Next == 0 || rs.contents.nextDue(e) > now:
	case catchUp:
		rs.skipTimes(e, p.catchUp(now), now)
	default:
		rs.skipTimes(e, p.skipDue(now, ReasonPaused), now)
	}
}

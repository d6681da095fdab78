package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// A scheduled time may come while the job's run is unfinished; a run that waits for its retries is
// unfinished, too. The job's overlap rule decides what happens (overlap):
//
//	OverlapSerial   the time waits. When the run has ended, the misfire rule applies to all that have come
//	(default)
//	OverlapSkip     the times do not run
//	OverlapAllow    a second run begins, as a pending run of the job
//	OverlapReplace  the unfinished run ends, the next one begins

// serial reports whether nothing happens when a scheduled time of e comes while its run is unfinished.
// Without the spec in memory that is not known, so the answer is no unless it was found to be yes before:
// then the spec is read when that time comes.
func (g *agenda) serial(e *entry) bool {
	if e.spec != nil {
		o := e.job().Overlap
		e.serial = o != carillon.OverlapAllow && o != carillon.OverlapReplace
	}
	return e.serial
}

// overlapDue returns when the next scheduled time of a job comes during its unfinished run; 0 if it never
// does.
func (g *agenda) overlapDue(e *entry) int64 {
	s := &e.state
	if e.ref.Seq != 0 || !s.Run.Live || s.Next == 0 || s.Paused || !allOpen(s) || g.serial(e) {
		return 0
	}
	if e.doubtful() && e.spec != nil && e.job().Overlap == carillon.OverlapReplace {
		return 0 // the attempt in doubt is made again before another run replaces it
	}
	return max(g.contents.nextDue(e), e.later)
}

// overlap acts upon the next scheduled time while the job's run is unfinished.
func (rs *runs) overlap(e *entry, now int64) {
	if rs.records.specMissing(e) {
		rs.due.block(e) // only a run that is not ready can lack its spec
		return
	}
	if rs.contents.unscheduled(e) {
		rs.suspend(e, now)
		return
	}
	switch e.job().Overlap {
	case carillon.OverlapAllow:
		rs.beginBeside(e, now)
	case carillon.OverlapReplace:
		rs.replaceRun(e, now)
	default: // the time waits for the end of the run; see skipOverlapped
		rs.agenda.rearm(e)
	}
}

// skipOverlapped records, when e's run has ended, the times that OverlapSkip skips. It does so once, and not
// at each time, so that they share one record (docs/decisions/0017).
func (rs *runs) skipOverlapped(e *entry, now int64) {
	if e.state.Next == 0 || e.job().Overlap != carillon.OverlapSkip || rs.contents.nextDue(e) > now {
		return
	}
	if p := rs.contents.timetableOf(e); p.sched != nil {
		rs.skipTimes(e, p.skipDue(now, ReasonOverlap), now)
	}
}

// replaceRun ends the unfinished run and begins the next one (OverlapReplace).
func (rs *runs) replaceRun(e *entry, now int64) {
	t := rs.choose(e, now)
	if t == 0 { // the misfire rule skips the time, so the unfinished run goes on
		rs.agenda.rearm(e)
		return
	}
	rs.detach(e, now, true)
	end := ending{status: carillon.RunCancelled, reason: ReasonOverlap}
	if e.state.Run.Attempt == 0 {
		end.status = carillon.RunSkipped
	}
	rs.closeRun(e, now, end)
	rs.due.touch(e)
	rs.due.start(e, t, now)
}

// beginBeside begins the next run as a pending run (OverlapAllow), unless the job has carillon.MaxPending of
// them.
func (rs *runs) beginBeside(e *entry, now int64) {
	s, p := &e.state, rs.contents.timetableOf(e)
	if rs.window.waiting() > 2*rs.cfg.WindowJobs { // due runs must leave memory first
		e.later = now + int64(besideEvery)
		rs.agenda.rearm(e)
		return
	}
	e.later = 0
	if s.Pending >= carillon.MaxPending {
		rs.skipTimes(e, p.skipDue(now, ReasonOverlap), now)
		rs.agenda.rearm(e)
		return
	}
	if t := rs.choose(e, now); t != 0 {
		p.begin(t)
		rs.due.closeWaits(e, now)
		s.Triggers++
		run := store.RunState{Live: true, Scheduled: t, Due: p.due(t), Cause: carillon.CauseSchedule}
		rs.addPending(e, store.State{UID: s.UID, Generation: s.Generation, Created: now, Updated: now,
			Priority: s.Priority, Run: run, Trace: s.Trace}, nil)
		rs.due.touch(e) // or, if this step were lost in a crash, a later time could be handed out before it
	}
	rs.agenda.rearm(e)
}

// besideEvery is how long a job waits before it tries again to begin a run beside another while memory is
// full of due runs.
const besideEvery = time.Second

// full returns an error if the job has as many pending runs as it may.
func full(job *entry) error {
	if job.state.Pending < carillon.MaxPending {
		return nil
	}
	return carillon.Errorf(carillon.ResourceExhausted, "name",
		"job %q has %d unfinished runs beside its own, which is the most; wait until some have ended, or cancel them",
		job.ref.Name, carillon.MaxPending)
}

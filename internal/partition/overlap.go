package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// A scheduled time may come while the job's run is unfinished; a run that waits for its retries is
// unfinished, too. The job's overlap rule decides what happens:
//
//	rule            what happens                                          handled by
//	OverlapSerial   the time waits. When the run has ended, the misfire   overlaps (false),
//	(default)       rule applies to all that have come                    then choose
//	OverlapSkip     the times do not run                                  overlaps (false), then afterRun
//	OverlapAllow    a second run begins, as a pending run of the job      overlap, beside
//	OverlapReplace  the unfinished run ends, the next one begins          overlap, displace

// afterRun records the times that OverlapSkip skips. It does so once, when the run ends, and not at each
// time, so that they share one record (docs/decisions/0017). Under OverlapSerial it leaves them to the
// misfire rule.
func (m *Machine) afterRun(e *entry, now int64) {
	j := m.jobOf(e)
	if j.Overlap != carillon.OverlapSkip || e.state.Next == 0 || m.nextDue(e) > now {
		return
	}
	s := m.scheduleOf(e)
	if s == nil {
		return
	}
	m.passOver(e, s, e.state.Next, m.newestDue(e, s, e.state.Next, now), now, ReasonOverlap)
}

// overlaps reports whether a scheduled time of e is acted upon while its run is unfinished. Without the spec
// in memory that is not known, so the answer is yes unless it was found to be no before: then the spec is
// read when that time comes.
func (m *Machine) overlaps(e *entry) bool {
	if e.spec != nil {
		o := m.jobOf(e).Overlap
		e.waits = o != carillon.OverlapAllow && o != carillon.OverlapReplace
	}
	return !e.waits
}

// overlapDue returns when the next scheduled time of a job comes during its unfinished run; 0 if it never
// does.
func (m *Machine) overlapDue(e *entry) int64 {
	s := &e.state
	if e.ref.Seq != 0 || !s.Run.Live || s.Next == 0 || s.Paused || !allOpen(s) || !m.overlaps(e) {
		return 0
	}
	if e.doubtful() && e.spec != nil && m.jobOf(e).Overlap == carillon.OverlapReplace {
		return 0 // the attempt in doubt is made again before another run replaces it
	}
	return max(m.nextDue(e), e.later)
}

// overlapping reports whether that time has come.
func (m *Machine) overlapping(e *entry, now int64) bool {
	at := m.overlapDue(e)
	return at != 0 && at <= now
}

// overlap acts upon the next scheduled time while the job's run is unfinished.
func (m *Machine) overlap(e *entry, now int64) {
	if m.specMissing(e) {
		m.block(e) // only a run that is not ready can lack its spec
		return
	}
	switch {
	case m.unscheduled(e):
		m.suspend(e, now)
	case m.jobOf(e).Overlap == carillon.OverlapAllow:
		m.beside(e, now)
	default:
		m.displace(e, now)
	}
}

// displace ends the unfinished run and begins the next one (OverlapReplace).
func (m *Machine) displace(e *entry, now int64) {
	t := m.choose(e, now)
	if t == 0 { // the misfire rule skips the time, so the unfinished run goes on
		m.rearm(e)
		return
	}
	m.revoke(e)
	end := ending{status: carillon.RunCancelled, reason: ReasonOverlap}
	if e.state.Run.Attempt == 0 {
		end.status = carillon.RunSkipped
	}
	m.unrepeat(e, now)
	m.unlist(e)
	m.keepRun(e, now, end)
	m.touch(e)
	e.state.Phase = carillon.PhaseScheduled
	m.start(e, t, now)
}

// beside begins the next run as a pending run (OverlapAllow), unless the job has carillon.MaxPending of them.
func (m *Machine) beside(e *entry, now int64) {
	s := &e.state
	if m.waiting() > 2*m.cfg.WindowJobs { // due runs must leave memory first
		e.later = now + int64(besideEvery)
		m.rearm(e)
		return
	}
	e.later = 0
	if s.Pending >= carillon.MaxPending {
		sched := m.scheduleOf(e)
		m.passOver(e, sched, s.Next, m.newestDue(e, sched, s.Next, now), now, ReasonOverlap)
		m.rearm(e)
		return
	}
	if t := m.choose(e, now); t != 0 {
		s.Begun++
		m.useUp(e, now)
		s.Next = m.nextAfter(e, t)
		s.Triggers++
		run := store.RunState{Live: true, Scheduled: t, Due: t + m.jitter(e, t), Cause: carillon.CauseSchedule}
		m.addPending(e, store.State{UID: s.UID, Generation: s.Generation, Created: now, Updated: now, Priority: s.Priority, Run: run}, nil)
		m.touch(e) // or, if this step were lost in a crash, a later time could be handed out before it
	}
	m.rearm(e)
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

package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
)

// unrepeat gives back the repeat that e's run has used up, for a run that ends without an attempt and without
// anybody having asked for its end: repeats counts only runs that a consumer may have had. A job that had
// begun its last run then has a next time again.
func (m *Machine) unrepeat(e *entry, now int64) {
	r, job := &e.state.Run, e.owner()
	if job == nil || r.Cause != carillon.CauseSchedule || r.Attempt != 0 || e.doubtful() || (e != job && e.own()) {
		return
	}
	s, sched := &job.state, m.scheduleOf(job)
	if s.Begun == 0 || sched == nil { // a put has restarted the count
		return
	}
	limit := plan.EffectiveRepeats(m.jobOf(job), sched)
	spent := limit > 0 && s.Begun >= limit
	if s.Begun--; spent && s.Next == 0 {
		s.Next = m.nextAfter(job, m.lastBegun(job, now))
	}
}

// lastBegun returns the newest scheduled time that is known to have begun. It is at least now if some runs
// are not in memory.
func (m *Machine) lastBegun(job *entry, now int64) (last int64) {
	if l := &job.state.Last; l.Finished != 0 && l.Cause == carillon.CauseSchedule {
		last = l.Scheduled
	}
	if int(job.state.Pending) > int(job.children) {
		last = max(last, now)
	}
	for _, e := range m.runsOf(job) {
		if e.state.Run.Cause == carillon.CauseSchedule {
			last = max(last, e.state.Run.Scheduled)
		}
	}
	return last
}

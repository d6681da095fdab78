package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
)

// spent reports whether the schedule has begun as many runs as the job and its schedule allow.
func (p timetable) spent() bool {
	limit := plan.EffectiveRepeats(p.job, p.sched)
	return limit > 0 && p.s.Begun >= limit
}

// unrepeat gives back the repeat that e's run has used up, for a run that ends without an attempt and without
// anybody having asked for its end: repeats counts only runs that a consumer may have had. A job that had
// begun its last run then has a next time again.
func (rs *runs) unrepeat(e *entry, now int64) {
	r, job := &e.state.Run, e.owner()
	if job == nil || r.Cause != carillon.CauseSchedule || r.Attempt != 0 || e.doubtful() ||
		(e != job && e.own()) {
		return
	}
	p, s := rs.contents.timetableOf(job), &job.state
	if s.Begun == 0 || p.sched == nil { // a put has restarted the count
		return
	}
	spent := p.spent()
	if s.Begun--; spent && s.Next == 0 {
		s.Next = p.next(rs.records.familyOf(job).lastBegun(now))
	}
}

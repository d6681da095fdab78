package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
)

// family is a job with the unfinished runs of it that are in memory: its own, and its pending runs.
type family struct {
	job  *entry
	runs []*entry // by ref
}

// familyOf returns the job's family.
func (rs *Records) familyOf(job *entry) family {
	f := family{job: job}
	if job.state.Run.Live {
		f.runs = append(f.runs, job)
	}
	if job.children > 0 {
		for _, e := range rs.live {
			if e.parent == job {
				f.runs = append(f.runs, e)
			}
		}
		slices.SortFunc(f.runs, func(a, b *entry) int { return a.ref.Compare(b.ref) })
	}
	return f
}

// complete reports whether all pending runs of the job are in memory.
func (e *entry) complete() bool { return int(e.state.Pending) <= int(e.children) }

// mayRun reports whether a pending run of the job stands for the scheduled time t. If some are not in memory
// that is not known: a recurring job then skips t, and a one-shot, which has no other time, runs.
func (f family) mayRun(t int64, recurring bool) bool {
	return (recurring && !f.job.complete()) || slices.ContainsFunc(f.runs, func(e *entry) bool {
		r := &e.state.Run
		return e != f.job && r.Cause == carillon.CauseSchedule && r.Scheduled == t
	})
}

// laterBeside reports whether a scheduled run of a later time goes on beside the job's own. The overlap rule
// may have been another one when it began. Runs that are not in memory count if the rule is OverlapAllow.
func (f family) laterBeside(o carillon.Overlap) bool {
	return (o == carillon.OverlapAllow && !f.job.complete()) || slices.ContainsFunc(f.runs, func(e *entry) bool {
		r := &e.state.Run
		return e != f.job && !e.own() && r.Cause == carillon.CauseSchedule &&
			r.Scheduled > f.job.state.Run.Scheduled
	})
}

// lastBegun returns the newest scheduled time that is known to have begun. It is at least now if some runs
// are not in memory.
func (f family) lastBegun(now int64) (last int64) {
	if l := &f.job.state.Last; l.Finished != 0 && l.Cause == carillon.CauseSchedule {
		last = l.Scheduled
	}
	if !f.job.complete() {
		last = max(last, now)
	}
	for _, e := range f.runs {
		if e.state.Run.Cause == carillon.CauseSchedule {
			last = max(last, e.state.Run.Scheduled)
		}
	}
	return last
}

package checker

import (
	"slices"
	"time"
)

// releaseRules are about runs after others, and whole backfills: S3.
type releaseRules struct{ *check }

// released: S3, a job that comes after others begins when each has succeeded and its time has come.
func (c releaseRules) released(j *job) {
	for _, e := range j.effects {
		if e.job == nil || !e.sure || e.vague || e.alien || e.op.Outcome != OK || len(e.job.After) == 0 ||
			e.op.Answer.NextRun.IsZero() {
			continue
		}
		if e.job.Repeats == 0 && e.job.TTL == 0 && e.job.Expires.IsZero() &&
			(e.sched == nil || (e.sched.runs == 0 && e.sched.step.months == 0)) {
			c.releasedUnder(j, e)
		}
	}
}

// releasedUnder follows a job from release to release while it is what e says.
func (c releaseRules) releasedUnder(j *job, e *effect) {
	s := c.sureTime(j, e)
	from, due := e.hi, e.op.Answer.NextRun
	for {
		ready := c.lastOf(j, e.job.After, from)
		if ready.IsZero() {
			return
		}
		by := deadline(later(due.Add(e.job.Jitter), ready), c.k.Dispatch, c.reach.bad(j), c.own(j, e), c.down(e))
		if by.After(s.to) || c.mayBePaused(j, e.lo, by) {
			return
		}
		next := c.begunAfter(j, from)
		if next == nil || next.At.After(by) {
			if !c.complete(j) || c.endedAfter(j, from, by) {
				return
			}
			c.addf("S3", j.String(), "the jobs that it comes after had succeeded at %s, and no run of it began by %s",
				c.show(ready), c.show(by))
			return
		}
		if e.sched == nil {
			return
		}
		times := e.sched.instants(e.op.Answer.NextRun, next.Scheduled.Add(1), s.to)
		if len(times) == 0 {
			return
		}
		from, due = next.At, times[0]
	}
}

// lastOf is when the last of the jobs was known to have succeeded since an instant; zero if one has not.
func (c releaseRules) lastOf(j *job, names []string, since time.Time) time.Time {
	var last time.Time
	for _, name := range names {
		first := time.Time{}
		other := c.jobs[key{j.namespace, name}]
		if other == nil {
			return first
		}
		for _, r := range other.runs {
			for _, res := range r.results {
				counts := res.Kind == Success && res.Verdict == Acked && res.Sent.After(since) && !again(r, res)
				if counts && (first.IsZero() || res.Told.Before(first)) {
					first = res.Told
				}
			}
		}
		if first.IsZero() {
			return first
		}
		last = later(last, first)
	}
	return last
}

// again reports whether the same success was sent before: then it counted then.
func again(r *run, res *Result) bool {
	return slices.ContainsFunc(r.results,
		func(o *Result) bool { return o != res && o.Kind == res.Kind && o.Sent.Before(res.Sent) })
}

// begunAfter is the first attempt of the first run of the schedule that began after an instant.
func (c releaseRules) begunAfter(j *job, t time.Time) *Attempt {
	for _, r := range j.runs {
		if a := r.first(); a.Cause == CauseSchedule && a.At.After(t) {
			return a
		}
	}
	return nil
}

// endedAfter reports whether a record tells of something that ended, or was passed over, in a stretch of
// time.
func (c releaseRules) endedAfter(j *job, from, to time.Time) bool {
	wrong := c.wrong(j, from, to)
	return slices.ContainsFunc(j.records, func(r FinalRun) bool {
		return (r.Cause == CauseSchedule || r.Cause == "") && !r.Finished.Before(from.Add(-wrong)) &&
			!r.Finished.After(to.Add(wrong))
	})
}

// wholeBackfill: S3, an acknowledged backfill ran as many times as it said, once it had time to.
func (c releaseRules) wholeBackfill(j *job, o *Op) {
	if o.Outcome != OK || o.Answer.BackfillID == "" || o.Answer.Runs == 0 || !c.complete(j) {
		return
	}
	limited := slices.ContainsFunc(j.effects,
		func(e *effect) bool { return e.job != nil && e.job.ConcurrencyKey != "" })
	if limited || c.asked(j, o.Invoke, c.h.End,
		func(x *Op) bool { return x.deletes() || x.Kind == BackfillCancel }) {
		return
	}
	times, last := map[time.Time]bool{}, o.Return
	for _, r := range j.runs {
		if a := r.first(); a.Backfill == o.Answer.BackfillID {
			times[a.Scheduled.UTC()] = true
			last = later(last, c.possible(r, len(r.attempts)-1).to)
			if len(r.records) == 0 {
				last = c.never() // it goes on
			}
		}
	}
	for _, r := range j.records {
		if r.Backfill == o.Answer.BackfillID {
			times[r.Scheduled.UTC()] = true
			last = later(last, r.Finished)
		}
	}
	if deadline(last, c.k.Dispatch+c.longestLease(j)+c.k.Grace, c.reach.bad(j)).After(c.h.End) {
		return
	}
	if len(times) != o.Answer.Runs {
		c.addf("S3", j.String(), "backfill %s has %d times, and ran %d", o.Answer.BackfillID,
			o.Answer.Runs, len(times))
	}
}

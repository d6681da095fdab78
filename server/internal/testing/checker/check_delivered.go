package checker

import (
	"slices"
	"time"
)

// lazy is how old an attempt on a stream may be before its grant is durable.
const lazy = time.Second

// deliveryRules are about runs that are in the history and were seen, and repeats: S2, S12.
type deliveryRules struct{ *check }

// delivered: S12, the history does not deny what consumers had: a run of which somebody had an attempt is not
// one that did not run, and has as many attempts as were seen of it. S2, and the schedule begins no more
// runs, by their ids, than it may.
func (c deliveryRules) delivered(j *job) {
	for _, rec := range j.records {
		r := c.runs[rec.RunID]
		if r == nil || rec.Skipped > 0 || redriven(r, c.h.End) {
			continue
		}
		seen := 0
		for _, a := range r.attempts {
			young := rec.Finished.IsZero() && a.At.After(c.h.End.Add(-lazy)) // a list shows what is durable
			if !young && !c.lapses.forgotten(a.At) && (!j.dapr() || counts(r, a)) {
				seen = max(seen, a.Number)
			}
		}
		if seen > rec.Attempt {
			c.addf("S12", j.String(), "run %s is in the history as %s (%s) with %d attempts, and attempt %d was handed out", r.id, rec.Status,
				rec.Reason, rec.Attempt, seen)
		}
	}
	c.repeated(j)
}

// repeated counts the runs of a job that was defined once.
func (c deliveryRules) repeated(j *job) {
	if len(j.effects) != 1 || j.effects[0].job == nil || j.effects[0].vague || j.effects[0].limit() == 0 {
		return
	}
	limit := j.effects[0].limit()
	ran := 0
	for _, r := range j.runs {
		if r.first().Cause == CauseSchedule && !c.lapses.ranInVain(r) {
			ran++
		}
	}
	if ran > limit {
		c.addf("S2", j.String(), "the schedule began %d runs, and may begin %d", ran, limit)
	}
}

// leftBefore reports whether the first attempt of a run may have been handed out before its job was paused,
// by an owner that ended without order before that was durable. It is in doubt then: a pause takes back only
// what nobody can have had, so it is made again, however long that takes. The owner must have ended after the
// run was due, and the pause cannot have come long before: what was handed out then was durable.
func (w *world) leftBefore(r *run, a *Attempt) bool {
	j, due := r.job, a.Scheduled.Add(-w.wrong(r.job, a.Scheduled, a.At))
	return r.inDoubt() && slices.ContainsFunc(w.reach.faults(j), func(f *Fault) bool {
		since := later(due, f.From.Add(-lazy-w.k.Dispatch))
		ended := earlier(a.At, f.To.Add(w.k.OwnerLease+w.k.Dispatch))
		return !f.worker() && f.Skew == 0 && since.Before(ended) && !w.surelyPaused(j, since, ended)
	})
}

// inDoubt reports whether the product says of a run that an attempt of it was in doubt. A worker is told with
// the attempt, an HTTP endpoint is not.
func (r *run) inDoubt() bool {
	return slices.ContainsFunc(r.attempts, func(a *Attempt) bool { return a.InDoubt > 0 }) ||
		slices.ContainsFunc(r.records, func(rec FinalRun) bool { return rec.InDoubt > 0 })
}

package checker

import "slices"

// counterRules are about what jobs count: S16.
type counterRules struct{ *check }

// counted: S16, what a job counts agrees with its runs, whatever happened to the nodes that counted.
func (c counterRules) counted(j *job) {
	f := j.final
	if f == nil || !c.h.Final.Whole {
		return
	}
	n := &f.Counters
	ended := n.Succeeded + n.Dropped + n.Dead + n.Cancelled
	if f.Unfinished != nil && ended+*f.Unfinished != n.Fired {
		c.addf("S16", j.String(), "it has fired %d, %d have ended and %d are unfinished", n.Fired,
			ended, *f.Unfinished)
	} else if ended > n.Fired {
		c.addf("S16", j.String(), "it has fired %d, and %d have ended", n.Fired, ended)
	}
	if n.Late > n.Fired {
		c.addf("S16", j.String(), "it has fired %d, and %d of them late", n.Fired, n.Late)
	}
	if !c.complete(j) || !c.ofOneLife(j) {
		return
	}
	have, all := c.recount(j)
	switch {
	case !all:
	case f.Unfinished == nil: // the history was read later
		if c.oneAtATime(j) && n.Fired > have.Fired+1 {
			c.addf("S16", j.String(), "it has fired %d, and its history has %d runs", n.Fired, have.Fired)
		}
	case n.Fired != have.Fired+*f.Unfinished || n.Succeeded != have.Succeeded || n.Dropped != have.Dropped ||
		n.Dead != have.Dead ||
		n.Skipped < have.Skipped || n.Skipped > have.Skipped+c.skippedBefore(j) || n.Cancelled != have.Cancelled:
		c.addf("S16", j.String(), "it counts %+v and has %d unfinished runs, and its history says %+v", *n,
			*f.Unfinished, have)
	}
}

// recount counts the finished runs of the job's life by their records; all says that it is known of each
// whose life it ended in.
func (c counterRules) recount(j *job) (n Counters, all bool) {
	for i := range j.records {
		r := &j.records[i]
		own, known := r.UID == j.final.UID, r.UID != ""
		if known && !own {
			own, known = c.adopted(j, r)
		}
		switch {
		case !known:
			return n, false
		case !own || r.Finished.IsZero():
			continue
		case r.Attempt > 0:
			n.Fired++
		}
		switch r.Status {
		case "succeeded":
			n.Succeeded++
		case "failed":
			n.Dropped++
		case "dead":
			n.Dead++
		case "skipped":
			n.Skipped += max(1, r.Skipped)
		case "cancelled":
			n.Cancelled += uint64(min(r.Attempt, 1))
		}
	}
	return n, true
}

// adopted reports whether a run of an earlier job of the name ended in the job that is there at the end: it
// died, was redriven in this one, and is counted where it ends. known is false if that cannot be told from
// when it ended.
func (c counterRules) adopted(j *job, r *FinalRun) (is, known bool) {
	redriven := 0
	var born *Op
	for _, o := range j.ops {
		switch {
		case o.Kind == Redrive && o.Outcome != Fail && (o.RunID == "" || o.RunID == r.RunID):
			redriven++
		case o.Answer.UID == j.final.UID && o.Answer.Created && born == nil:
			born = o
		}
	}
	if redriven == 0 {
		return false, true
	}
	if born == nil {
		return false, false
	}
	wrong := c.wrong(j, r.Finished, r.Finished)
	switch {
	case r.Finished.Add(wrong).Before(born.Invoke):
		return false, true
	case r.Finished.Add(-wrong).After(c.by(born)):
		return true, redriven == 1 // each redrive counts it once more
	}
	return false, false
}

// skippedBefore is how many times more than its history says a job may count as skipped: a time that was
// skipped by hand, and that a later definition has again, is of one run id. The history has what became of it
// last.
func (c counterRules) skippedBefore(j *job) (n uint64) {
	for _, o := range j.ops {
		again := o.Kind == Skip && o.Outcome != Fail && slices.ContainsFunc(j.ops, func(x *Op) bool {
			return x.retimes() && x.Outcome != Fail && !c.by(x).Before(o.Invoke)
		})
		if again && (o.Outcome == Info || slices.ContainsFunc(j.records, func(r FinalRun) bool {
			return r.UID == j.final.UID && r.Cause == CauseSchedule && r.Scheduled.Equal(o.Answer.NextRun) &&
				!r.Finished.IsZero() &&
				r.Finished.After(c.by(o).Add(c.wrong(j, o.Invoke, c.h.End)))
		})) {
			n++
		}
	}
	return n
}

// ofOneLife reports whether the job surely did not come back for a dead run, nor has taken up one of an
// earlier namesake: then its history is that of more than it counts, or of less.
func (c counterRules) ofOneLife(j *job) bool {
	return !slices.ContainsFunc(j.ops, func(o *Op) bool {
		return o.Kind == Redrive && o.Outcome != Fail && !c.stood(j, o)
	})
}

// oneAtATime reports whether at most one of the job's runs is unfinished at a time.
func (c counterRules) oneAtATime(j *job) bool {
	beside := slices.ContainsFunc(j.ops, func(o *Op) bool {
		return (o.Kind == Trigger || o.Kind == Backfill || o.Kind == Redrive) && o.Outcome != Fail
	})
	return !beside && !slices.ContainsFunc(j.effects,
		func(e *effect) bool { return e.job != nil && (e.vague || e.job.Overlap == "allow") })
}

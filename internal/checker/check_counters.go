package checker

import "slices"

// counted: S16, what a job counts agrees with its runs, whatever happened to the nodes that counted.
func (c *check) counted(j *job) {
	f := j.final
	if f == nil || !c.h.Final.Whole {
		return
	}
	n := &f.Counters
	ended := n.Succeeded + n.Dropped + n.Dead + n.Cancelled
	if f.Unfinished != nil && ended+*f.Unfinished != n.Fired {
		c.addf("S16", j.String(), "it has fired %d, %d have ended and %d are unfinished", n.Fired, ended, *f.Unfinished)
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
	case n.Fired != have.Fired+*f.Unfinished || n.Succeeded != have.Succeeded || n.Dropped != have.Dropped || n.Dead != have.Dead ||
		n.Skipped != have.Skipped || n.Cancelled != have.Cancelled:
		c.addf("S16", j.String(), "it counts %+v and has %d unfinished runs, and its history says %+v", *n, *f.Unfinished, have)
	}
}

// recount counts the finished runs of the job's life by their records; all says that each says whose life it is of.
func (c *check) recount(j *job) (n Counters, all bool) {
	for i := range j.records {
		r := &j.records[i]
		switch {
		case r.UID == "":
			return n, false
		case r.UID != j.final.UID || r.Finished.IsZero():
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

// ofOneLife reports whether the job surely did not come back for a dead run, nor has taken up one of an earlier namesake: then its
// history is that of more than it counts, or of less.
func (c *check) ofOneLife(j *job) bool {
	return !slices.ContainsFunc(j.ops, func(o *Op) bool { return o.Kind == Redrive && o.Outcome != Fail && !c.stood(j, o) })
}

// oneAtATime reports whether at most one of the job's runs is unfinished at a time.
func (c *check) oneAtATime(j *job) bool {
	beside := slices.ContainsFunc(j.ops, func(o *Op) bool {
		return (o.Kind == Trigger || o.Kind == Backfill || o.Kind == Redrive) && o.Outcome != Fail
	})
	return !beside && !slices.ContainsFunc(j.effects, func(e *effect) bool { return e.job != nil && (e.vague || e.job.Overlap == "allow") })
}

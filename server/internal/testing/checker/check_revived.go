package checker

import (
	"slices"
	"time"
)

// A redrive gives a dead run new attempts. If its job is gone the job comes back, as it was for that run, and
// stays until all runs that were redriven, or begun beside them, have ended; a delete or a put ends it
// before.

// broughtBack reports whether a redrive may have brought a job back that was gone, so that it was there with
// a payload at some time of a stretch; an empty payload is any.
func (c callRules) broughtBack(j *job, from, to time.Time, payload string) bool {
	return slices.ContainsFunc(j.ops, func(x *Op) bool {
		return x.Kind == Redrive && x.Outcome != Fail && !x.Invoke.After(to) &&
			!c.stood(j, x) && !c.gaveWay(j, x, from) && c.revivedAs(j, x, payload) && c.goesOn(j, x, from, to)
	})
}

// stood reports whether a job surely was there when one of its runs was redriven.
func (w *world) stood(j *job, x *Op) bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		return e.sure && e.job != nil && e.lasts() && !e.hi.After(x.Invoke) &&
			!slices.ContainsFunc(j.effects, func(o *effect) bool {
				return o != e && (o.op.defines() || o.op.deletes()) && !e.after(o) && !o.lo.After(w.by(x))
			})
	})
}

// gaveWay reports whether something surely took the place of what a redrive brought back, or deleted it,
// before an instant.
func (c callRules) gaveWay(j *job, x *Op, before time.Time) bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		says := e.op.deletes() || (e.op.defines() &&
			(e.op.Kind != Patch || slices.Contains(e.op.Fields, "payload")))
		return says && e.sure && !e.lo.Before(c.by(x)) && e.hi.Before(before)
	})
}

// revivedAs reports whether a redrive may have brought a job back with a payload: that of a run which had
// died.
func (c callRules) revivedAs(j *job, x *Op, payload string) bool {
	by := c.by(x)
	wrong := c.wrong(j, x.Invoke, by)
	had := slices.ContainsFunc(j.effects, func(e *effect) bool {
		return e.job != nil && !e.lo.After(by) && (payload == "" || e.job.Payload == payload || e.vague)
	})
	return had && c.anyRun(j, func(id, _ string, at time.Time) bool {
		if (x.RunID != "" && x.RunID != id) || at.After(by.Add(wrong)) ||
			!c.endsAfter(j, id, x.Invoke.Add(-wrong)) {
			return false
		}
		r := c.runs[id]
		return payload == "" || r == nil || c.unseen(j, r.first().At, by) ||
			slices.ContainsFunc(r.attempts, func(a *Attempt) bool { return a.Payload == payload })
	})
}

// goesOn reports whether a run that kept a job there which a redrive had brought back may have gone on at
// some time of a stretch.
func (c callRules) goesOn(j *job, x *Op, from, to time.Time) bool {
	beside := c.asked(j, x.Invoke, to, func(o *Op) bool { return o.Kind == Trigger || o.Kind == Backfill })
	ended := from.Add(-c.wrong(j, x.Invoke, to))
	return c.anyRun(j, func(id, cause string, at time.Time) bool {
		again := slices.ContainsFunc(j.ops, func(y *Op) bool {
			return y.Kind == Redrive && y.Outcome != Fail && (y.RunID == "" || y.RunID == id) && !y.Invoke.After(to) &&
				!c.by(y).Before(x.Invoke) && !at.After(c.by(y).Add(c.wrong(j, y.Invoke, c.by(y))))
		})
		return (again || (beside && cause != CauseSchedule)) && c.endsAfter(j, id, ended)
	})
}

// anyRun reports whether a run of a job is like this, one that no worker saw too; at is its scheduled time.
func (c callRules) anyRun(j *job, like func(id, cause string, at time.Time) bool) bool {
	return slices.ContainsFunc(j.runs, func(r *run) bool {
		return like(r.id, r.first().Cause, r.first().Scheduled)
	}) ||
		slices.ContainsFunc(j.records, func(r FinalRun) bool {
			return r.Skipped == 0 && c.runs[r.RunID] == nil && like(r.RunID, r.Cause, r.Scheduled)
		})
}

// endsAfter reports whether a run may have ended after an instant, for the last time.
func (c callRules) endsAfter(j *job, id string, t time.Time) bool {
	return !c.complete(j) || !j.known[id] || slices.ContainsFunc(j.records, func(r FinalRun) bool {
		return r.RunID == id && (r.Finished.IsZero() || !r.Finished.Before(t))
	})
}

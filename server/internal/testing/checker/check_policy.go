package checker

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// policyRules are about what did not run, and in which order the rest did: S5, S9, S12.
type policyRules struct{ *check }

// honest: S12, whatever did not run has a record with a reason that was true.
func (c policyRules) honest(j *job) {
	for _, r := range j.records {
		switch r.Status {
		case "skipped":
			c.honestSkip(j, r)
		case "cancelled":
			if !c.mayCancel(j, r) {
				c.addf("S12", j.String(), "run %s is cancelled (%s), and nobody asked for it", r.RunID, r.Reason)
			}
		case "succeeded":
			c.honestSuccess(j, r)
		}
	}
}

// honestSkip holds the reason of a record of times that did not run against what the job was then.
func (c policyRules) honestSkip(j *job, r FinalRun) {
	from, to := r.From, later(r.Finished, r.Scheduled)
	if r.Skipped == 0 || from.IsZero() {
		from = r.Scheduled
	}
	wrong := c.wrong(j, from, to) // the node's clock
	lo, hi := from.Add(-wrong), to.Add(wrong)
	ok := false
	switch r.Reason {
	case "":
	case "paused":
		ok = c.mayBePaused(j, r.Scheduled.Add(-wrong), hi)
	case "overlap":
		going := c.wasGoing(j, lo, hi)
		ok = c.hadRule(j, lo, hi, func(s *Job) bool {
			return (going && s.Overlap == "skip") || (s.Overlap == "replace" && (going || newer(s, r, hi) > 0))
		})
	case "misfire":
		ok = c.hadRule(j, lo, hi, func(s *Job) bool { return c.mayMiss(s, r, hi) }) ||
			// what passed in a pause was missed
			c.asked(j, r.Scheduled.Add(-wrong), hi, func(o *Op) bool { return o.Kind == Resume && o.CatchUp }) &&
				c.mayBePaused(j, r.Scheduled.Add(-wrong), hi) &&
				c.hadRule(j, lo, hi, func(s *Job) bool { return s.Misfire == "skip" })
	case "calendar":
		ok = excludedRules(c).had(j, r, from, lo, hi)
	case "expired":
		ok = slices.ContainsFunc(j.effects,
			func(e *effect) bool { return e.job != nil && (e.vague || e.job.TTL > 0 || !e.job.Expires.IsZero()) })
	case "skipped": // a time that was yet to come
		ok = slices.ContainsFunc(j.ops, func(o *Op) bool {
			return o.Kind == Skip && o.Outcome != Fail && !o.Invoke.After(hi) &&
				(o.Answer.NextRun.IsZero() || o.Answer.NextRun.Equal(r.Scheduled))
		})
	default: // deleted, replaced
		ok = c.asked(j, lo, hi, func(o *Op) bool {
			return o.deletes() || o.defines() || o.Kind == Skip || o.cancels()
		})
	}
	if !ok {
		c.addf("S12", j.String(), "%d times from %s to %s did not run for the reason %q, which was not so",
			max(r.Skipped, 1), c.show(from),
			c.show(r.Scheduled), r.Reason)
	}
	if !c.rightCount(j, r, from, hi) {
		c.addf("S12", j.String(), "a record says that %d times from %s to %s did not run (%s), which is not how many there were", r.Skipped,
			c.show(from), c.show(r.Scheduled), r.Reason)
	}
	c.notRun(j, r, from)
}

// mostCounted is where the product stops counting the times of a record one by one.
const mostCounted = 10_000

// rightCount reports whether some definition of the job has as many times in the stretch of a record, written
// by then, as it says.
func (c policyRules) rightCount(j *job, r FinalRun, from, by time.Time) bool {
	if r.Skipped == 0 || r.Skipped >= mostCounted {
		return !from.After(r.Scheduled)
	}
	return !from.After(r.Scheduled) && slices.ContainsFunc(j.effects, func(e *effect) bool {
		switch {
		case e.job == nil || e.lo.After(by):
			return false
		case e.vague || e.alien || e.sched == nil || (e.sched.anchored && e.sched.step.months > 0):
			return true
		}
		return len(e.job.told(e.sched.instants(from, from, r.Scheduled), r.Reason)) == int(r.Skipped)
	})
}

// notRun looks for an attempt of a time that a record says did not run.
func (c policyRules) notRun(j *job, rec FinalRun, from time.Time) {
	if rec.Skipped == 0 || c.asked(j, from, c.h.End, func(o *Op) bool { return o.defines() || o.deletes() }) {
		return // another definition may have given the same time
	}
	runs := j.byTime()
	i := sort.Search(len(runs), func(i int) bool { return !runs[i].first().Scheduled.Before(from) })
	for ; i < len(runs) && !runs[i].first().Scheduled.After(rec.Scheduled); i++ {
		if a := runs[i].first(); a.Cause == CauseSchedule && !c.lapses.ranInVain(runs[i]) {
			c.addf("S12", j.String(), "the time %s ran, and a record says that it did not (%s)",
				c.show(a.Scheduled), rec.Reason)
			return
		}
	}
}

// newest: S12, under latest a time does not run if a newer one was due already when the run before it ended.
func (c policyRules) newest(j *job) {
	var before *run
	for _, r := range j.runs {
		a := r.first()
		if a.Cause != CauseSchedule {
			continue
		}
		if before != nil && !redriven(r, a.At) {
			c.newestAfter(j, before, a)
		}
		before = r
	}
}

func (c policyRules) newestAfter(j *job, before *run, a *Attempt) {
	other := func(s *Job) bool {
		return (s.Misfire != "" && s.Misfire != "latest") ||
			(s.Overlap != "" && s.Overlap != "serial") || s.Schedule == ""
	}
	for _, res := range before.results {
		if res.Kind != Success || res.Verdict != Acked || res.Sent.After(a.At) ||
			!res.Sent.After(a.Scheduled) || again(before, res) {
			continue
		}
		if c.fault(j, a.Scheduled, a.At, a) ||
			c.hadRule(j, earlier(a.Scheduled, before.first().Scheduled), a.At, other) ||
			c.asked(j, a.Scheduled, a.At, func(o *Op) bool { return o.changes() }) {
			return
		}
		for _, e := range j.effects {
			inForce := e.job != nil && !e.lo.After(a.At) && !e.until.Add(c.k.Apply).Before(a.Scheduled)
			if !inForce || e.vague || e.sched == nil || e.sched.step.months > 0 || !c.gives(e, a.Scheduled) {
				continue
			}
			by := res.Sent.Add(-c.wrong(j, a.Scheduled, a.At) - e.job.Jitter)
			if end := c.lifeEnds(j, e); !end.IsZero() {
				if e.job.TTL == 0 {
					end = end.Add(-c.wrong(j, e.lo, end))
				}
				by = earlier(by, end) // what comes after the end of its life is none of its times
			}
			newer := e.job.told(e.sched.instants(a.Scheduled, a.Scheduled.Add(1), by), "")
			if len(newer) > 0 {
				c.addf("S12", j.String(),
					"the time %s ran after run %s had ended at %s, when %s was due already", c.show(a.Scheduled), before.id,
					c.show(res.Sent), c.show(newer[len(newer)-1]))
			}
			return
		}
	}
}

// hadRule reports whether a definition that says so may have been in force at some time of a stretch.
func (w *world) hadRule(j *job, from, to time.Time, says func(*Job) bool) bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		return e.job != nil && !e.lo.After(to) && !e.until.Add(w.k.Apply).Before(from) && (e.vague || says(e.job))
	})
}

// asked reports whether an operation like this may have taken effect at some time of a stretch.
func (w *world) asked(j *job, from, to time.Time, like func(*Op) bool) bool {
	return slices.ContainsFunc(j.ops, func(o *Op) bool {
		return like(o) && o.Outcome != Fail && !o.Invoke.After(to) &&
			(o.Outcome == Info || !o.Return.Before(from)) &&
			!w.lapses.undoneBy(o, from)
	})
}

// wasGoing reports whether a run of the schedule may have been going on at some time of a stretch. One that
// no worker saw waited for a consumer.
func (c policyRules) wasGoing(j *job, from, to time.Time) bool {
	if i := sort.Search(len(j.busy), func(i int) bool { return !j.busy[i].to.Before(from) }); i < len(j.busy) &&
		!j.busy[i].from.After(to) {
		return true
	}
	return slices.ContainsFunc(j.records, func(r FinalRun) bool {
		// that one waited, and was taken away by hand
		return r.Skipped == 0 && (r.Status != "skipped" || r.Reason == "skipped") &&
			r.Scheduled.Before(from) && (r.Finished.IsZero() || !r.Finished.Before(from))
	})
}

// newer is how many times of a job are due by then after those of a record.
func newer(s *Job, r FinalRun, by time.Time) int {
	sched, err := parse(s.Schedule, s.Zone, s.Literal)
	if err != nil {
		return 1
	}
	// the scheduled time itself is as good an anchor as any
	return len(sched.instants(r.Scheduled, r.Scheduled.Add(1), by))
}

// mayMiss reports whether the misfire rule of a job allows to pass over the times of a record: they are late,
// or a newer one was due; latest keeps the newest, all keeps as many as the limit and the window allow.
func (c policyRules) mayMiss(s *Job, r FinalRun, to time.Time) bool {
	sched, err := parse(s.Schedule, s.Zone, s.Literal)
	if err != nil {
		return true
	}
	decided := to
	// the scheduled time itself is as good an anchor as any
	newer := sched.instants(r.Scheduled, r.Scheduled.Add(1), decided)
	if sched.step.months > 0 {
		newer = sched.instants(r.Scheduled, r.Scheduled.Add(1), decided.Add(3*24*time.Hour)) // but for clamping
	}
	late := decided.Sub(r.Scheduled) > c.k.MisfireAfter
	old := s.CatchUpWindow > 0 && decided.Sub(r.Scheduled) > s.CatchUpWindow
	switch {
	case old:
		return true
	case s.Misfire == "skip":
		return late || len(newer) > 0
	case s.Misfire == "all":
		return len(newer) >= cmp.Or(s.CatchUpLimit, c.k.CatchUpLimit)
	}
	return len(newer) > 0 // latest: never the newest
}

// mayCancel reports whether something asked for the end of a run.
func (c policyRules) mayCancel(j *job, r FinalRun) bool {
	to := later(r.Finished, r.Scheduled)
	wrong := c.wrong(j, r.Scheduled, to) // the node's clock
	to = to.Add(wrong)
	return c.asked(j, r.Scheduled.Add(-wrong), to, func(o *Op) bool {
		defines := o.defines() && (r.Reason != "replaced" || o.retimes())
		if r.Reason == "purged" {
			return o.Kind == Purge
		}
		return o.deletes() || defines || o.Kind == Cancel || o.Kind == Skip || o.Kind == BackfillCancel
	}) || r.Reason != "purged" && c.hadRule(j, r.Scheduled, to, func(s *Job) bool {
		return s.Overlap == "replace" || s.TTL > 0 || !s.Expires.IsZero()
	})
}

// honestSuccess: what the history calls a success is one that a worker reported, if workers report at all.
func (c policyRules) honestSuccess(j *job, rec FinalRun) {
	r := c.runs[rec.RunID]
	if rec.Skipped > 0 || len(c.h.Results) == 0 {
		return
	}
	if r == nil {
		c.addf("S12", j.String(), "run %s is in the history as succeeded, and no worker had it", rec.RunID)
		return
	}
	said := false
	for _, res := range r.results {
		if res.Kind == Success {
			said = true
			if res.Verdict != Stale {
				return
			}
		}
	}
	last := r.attempts[len(r.attempts)-1]
	switch {
	case !said:
		c.addf("S12", j.String(), "run %s is in the history as succeeded, and no worker said so", rec.RunID)
	case !c.fault(j, last.At.Add(-time.Second), later(rec.Finished, last.At), nil):
		c.addf("S5", j.String(), "run %s is in the history as succeeded, and its worker was told that the result is stale", rec.RunID)
	default: // the owner did not learn what became of its write
		c.warnf(j.String(), "run %s is in the history as succeeded, and its worker was told that the result is stale", rec.RunID)
	}
}

// after: S12, a run of a job begins only after each job that it comes after has succeeded since the run
// before.
func (c policyRules) after(j *job) {
	names := c.always(j)
	if len(names) == 0 {
		return
	}
	since := map[string]time.Time{} // a success used by the run before cannot have come after this
	used := map[string]int{}        // successes that it, and those before it, must have used
	last := time.Time{}
	for _, r := range j.runs {
		a := r.first()
		if a.Cause != CauseSchedule || redriven(r, a.At) || c.lapses.vanished(r) {
			continue
		}
		if c.begunAgain(j, last, a.At) {
			clear(since)
			clear(used)
		}
		for _, name := range names {
			at, next, ok := c.uses(j, c.jobs[key{j.namespace, name}], since[name], a.At, used[name])
			if !ok {
				c.addf("S12", j.String(), "run %s began at %s, and %q had not succeeded since %s", r.id,
					c.show(a.At), name, c.show(since[name]))
			}
			// It may have begun before any worker saw it, but not before its time, nor before the success.
			since[name], used[name] = later(a.Scheduled.Add(-c.wrong(j, a.Scheduled, a.At)), at), next
		}
		last = a.At
	}
}

// begunAgain reports whether a job may have begun a new life, or have been armed again as a one-shot, between
// two instants: it then may begin with what had succeeded for good before.
func (c policyRules) begunAgain(j *job, from, to time.Time) bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		afresh := e.op.Outcome == Info || e.op.Answer.Created || (e.job != nil && e.job.Schedule == "")
		return e.job != nil && afresh && !e.lo.After(to) && !e.hi.Before(from)
	})
}

// always are the names that every definition of a job has in After.
func (c policyRules) always(j *job) []string {
	var names []string
	first := true
	for _, e := range j.effects {
		switch {
		case e.job == nil:
		case e.vague:
			return nil
		case first:
			names, first = slices.Clone(e.job.After), false
		default:
			names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(e.job.After, n) })
		}
	}
	return names
}

// uses is the first success of j, beyond those that are used up, of which by may have been told between two
// instants, and how many are used up with it.
func (c policyRules) uses(by, j *job, from, to time.Time, used int) (at time.Time, next int, ok bool) {
	if j == nil {
		return at, used, false
	}
	if j.wins == nil {
		j.wins = c.winsOf(j)
	}
	for i := used; i < len(j.wins) && !j.wins[i].from.After(to); i++ {
		w := j.wins[i]
		if told := c.toldBy(by, w.to); !told.Before(from) {
			return w.from, i + 1, true
		}
	}
	return at, used, false
}

// toldBy is until when a job may have been told of a success that was acknowledged at t: at once, unless
// something held up what partitions tell each other.
func (c policyRules) toldBy(j *job, t time.Time) time.Time {
	if by := deadline(t, c.k.Dispatch, c.reach.bad(j)); by.After(t.Add(c.k.Dispatch)) {
		return by
	}
	return t
}

// winsOf are the stretches in which runs of j succeeded, by their beginning; none ends before one that began
// earlier.
func (w *world) winsOf(j *job) []span {
	out := []span{}
	for _, r := range j.runs {
		for _, res := range r.results {
			if res.Kind != Success || res.Verdict == Stale {
				continue
			}
			to := res.Told
			if to.IsZero() {
				to = w.never()
			}
			out = append(out, span{res.Sent, to})
			break
		}
	}
	slices.SortFunc(out, func(a, b span) int { return a.from.Compare(b.from) })
	for i := 1; i < len(out); i++ {
		out[i].to = later(out[i].to, out[i-1].to)
	}
	return out
}

// backfills: S12, a backfill runs each time of its stretch once, and no other.
func (c policyRules) backfills(j *job) {
	var ops []*Op
	for _, o := range j.ops {
		if o.Kind == Backfill && o.Outcome != Fail {
			ops = append(ops, o)
		}
	}
	seen := map[string]map[time.Time]string{}
	for _, r := range j.runs {
		a := r.first()
		if a.Cause != CauseBackfill {
			continue
		}
		if !slices.ContainsFunc(ops, func(o *Op) bool { return c.mayFill(j, o, a) }) {
			c.addf("S12", j.String(), "run %s of %s belongs to no backfill", r.id,
				a.Scheduled.UTC().Format(time.RFC3339Nano))
		}
		if seen[a.Backfill] == nil {
			seen[a.Backfill] = map[time.Time]string{}
		}
		at := a.Scheduled.UTC()
		if id, ok := seen[a.Backfill][at]; ok && id != r.id && (a.Backfill != "" || len(ops) == 1) {
			c.addf("S12", j.String(), "backfill %s ran the time %s twice", a.Backfill, at.Format(time.RFC3339Nano))
		}
		seen[a.Backfill][at] = r.id
	}
	for _, o := range ops {
		c.filled(j, o)
		releaseRules(c).wholeBackfill(j, o)
	}
	c.serialFills(j, ops)
}

// mayFill reports whether a run may be one of the backfill.
func (c policyRules) mayFill(j *job, o *Op, a *Attempt) bool {
	if o.Invoke.After(a.At) || a.Scheduled.Before(o.From) || a.Scheduled.After(o.To) ||
		c.lapses.undoneBy(o, a.At) {
		return false
	}
	if a.Backfill != "" && o.Answer.BackfillID != "" && a.Backfill != o.Answer.BackfillID {
		return false
	}
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		if e.job == nil || e.lo.After(a.At) {
			return false
		}
		back := slices.ContainsFunc(j.ops, func(x *Op) bool { // then it has no times of its own to count from
			return x.Kind == Redrive && x.Outcome != Fail && !x.Invoke.After(o.Invoke) && !c.stood(j, x)
		})
		if e.vague || e.alien || e.sched == nil || back && e.sched.anchored {
			return true
		}
		if step := e.sched.fixedStep(); e.sched.anchored && step > 0 && !e.op.Answer.NextRun.IsZero() {
			return e.op.Answer.NextRun.Sub(a.Scheduled)%step == 0 // also before the job began
		}
		return e.sched.anchored || e.sched.is(a.Scheduled, e.lo, e.hi)
	})
}

// filled looks for times of an acknowledged backfill that never ran, if nothing came in its way.
func (c policyRules) filled(j *job, o *Op) {
	var def *effect
	for _, e := range j.effects {
		if e.job == nil {
			continue
		}
		if def != nil || !e.sure || e.vague || e.sched == nil || e.sched.anchored {
			return
		}
		def = e
	}
	stopped := c.asked(j, o.Invoke, c.h.End, func(x *Op) bool {
		return x != o && (x.deletes() || x.defines() || x.cancels() || x.Kind == Skip ||
			x.Kind == BackfillCancel)
	})
	if def == nil || stopped || o.Outcome != OK || !c.settled(j, o) {
		return
	}
	have := map[time.Time]bool{}
	for _, r := range j.runs {
		have[r.first().Scheduled.UTC()] = have[r.first().Scheduled.UTC()] || r.first().Cause == CauseBackfill
	}
	for _, r := range j.records {
		have[r.Scheduled.UTC()] = have[r.Scheduled.UTC()] || r.Cause == CauseBackfill
	}
	for _, t := range def.sched.instants(time.Time{}, o.From, o.To) {
		if !have[t.UTC()] {
			c.addf("S12", j.String(), "backfill %s never ran the time %s", o.Answer.BackfillID,
				t.UTC().Format(time.RFC3339Nano))
			return
		}
	}
}

// serialFills: the runs of a backfill that is not to overlap are in force one at a time.
func (c policyRules) serialFills(j *job, ops []*Op) {
	if len(ops) != 1 || (ops[0].Spec != nil && ops[0].Spec.Overlap == "allow") {
		return
	}
	var last lease
	for _, l := range c.leases(j, CauseBackfill) {
		if last.run != nil && last.run != l.run && l.from.Before(last.to) {
			c.addf("S9", j.String(), "run %s of a backfill began at %s, while run %s was in force", l.run.id,
				c.show(l.from), last.run.id)
		}
		last = l
	}
}

package checker

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// must is a scheduled time that had to run, or be accounted for, by a deadline.
type must struct {
	job   *job
	at    time.Time // as scheduled
	due   time.Time // at the latest, with its spread
	by    time.Time // the last moment at which it is not late
	first *Attempt  // nil = it did not run
	skip  bool      // a record says why it did not
}

// lateness is how late a run began.
type lateness struct {
	job     *job
	by      time.Duration
	excused bool
}

// sureTime is when an effect's definition was surely the job: nothing else may have taken effect.
func (w *world) sureTime(j *job, e *effect) span {
	s := span{e.hi.Add(w.k.Apply), w.h.End}
	for _, x := range j.effects {
		// pauses are asked about time by time
		if x == e || e.after(x) || x.op.Kind == Pause || x.op.Kind == Resume {
			continue
		}
		s.to = earlier(s.to, x.lo.Add(-w.k.Apply))
	}
	return s
}

// mayBePaused reports whether the job may have been paused at some moment of a stretch.
func (w *world) mayBePaused(j *job, from, to time.Time) bool {
	for _, e := range j.effects {
		paused, known := e.pauses()
		if !known || !paused || e.lo.After(to) || e.undone != nil && e.undone.To.Before(from) {
			continue
		}
		over := false
		for _, u := range j.effects {
			still, known := u.pauses()
			over = over || (known && !still && u.sure && u.after(e) && u.hi.Add(w.k.Apply).Before(from))
		}
		if !over {
			return true
		}
	}
	return false
}

// surelyPaused reports whether the job was paused all of a stretch.
func (w *world) surelyPaused(j *job, from, to time.Time) bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		paused, known := e.pauses()
		return known && paused && e.sure && !e.hi.Add(w.k.Apply).After(from) && !undone(j, e, to)
	})
}

// surelyGone reports whether the job did not exist all of a stretch.
func (w *world) surelyGone(j *job, from, to time.Time) bool {
	return slices.ContainsFunc(j.effects, func(e *effect) bool {
		return e.op.deletes() && e.sure && !e.hi.Add(w.k.Apply).After(from) && !undone(j, e, to) &&
			!revived(j, e.lo, to)
	})
}

// undone reports whether something that says otherwise may have taken effect after e, and before to.
func undone(j *job, e *effect, to time.Time) bool {
	wanted, _ := e.pauses()
	return slices.ContainsFunc(j.effects, func(u *effect) bool {
		paused, known := u.pauses()
		differs := known && paused != wanted
		if e.op.deletes() {
			differs = u.op.defines()
		}
		return u != e && differs && !e.after(u) && !u.lo.After(to)
	})
}

// expect works out what had to run, and what became of it.
func (c *check) expect() {
	for _, k := range c.keys {
		j := c.jobs[k]
		for _, e := range j.effects {
			if e.job != nil && e.sure && !e.vague && !e.alien && e.op.Outcome == OK && len(e.job.After) == 0 {
				c.expectOf(j, e, c.sureTime(j, e), time.Time{})
				for _, f := range c.lapses.went {
					if s, again := c.lapses.sureAgain(j, e, f); again {
						c.expectOf(j, e, s, f.To)
					}
				}
			}
		}
	}
	sort.SliceStable(c.musts, func(i, k int) bool { return c.musts[i].at.Before(c.musts[k].at) })
	for i := range c.musts {
		c.accountFor(&c.musts[i])
	}
}

// expectOf adds the times of one definition of a job, from an instant on, that had to run while it surely was
// the job.
func (c *check) expectOf(j *job, e *effect, s span, since time.Time) {
	first := e.op.Answer.NextRun
	if first.IsZero() || !s.from.Before(s.to) {
		return
	}
	ts := []time.Time{first}
	// a past one may be the due time
	if e.sched != nil && e.sched.cron != nil && !e.sched.is(first, first, first) && first.After(e.hi) &&
		!e.beginsAtDue(first) {
		c.addf("S2", j.String(), "the first run was promised for %s, which is no time of %q",
			first.UTC().Format(time.RFC3339Nano), e.job.Schedule)
		return
	}
	if e.sched != nil {
		anchor := first
		if e.sched.step.months > 0 && e.sched.anchored {
			anchor = e.job.Due
		}
		if anchor.IsZero() {
			return // it clamps from a day that is not known
		}
		ts = e.sched.instants(anchor, first, s.to)
		if len(ts) == 0 || !ts[0].Equal(first) { // it is due then, whatever the schedule says
			ts = slices.Insert(ts, 0, first)
		}
	}
	limited := e.sched != nil && (e.job.Repeats > 0 || e.sched.runs > 0)
	limit := e.limit()
	end := c.lifeEnds(j, e)
	for i, t := range e.job.told(ts, "") {
		if (limited && (!e.op.Answer.Created || i >= limit)) || (!end.IsZero() && t.After(end)) {
			return
		}
		if t.Before(since) {
			continue
		}
		m := must{job: j, at: t, due: t.Add(e.job.Jitter)}
		m.by = deadline(later(m.due, e.hi), c.k.Dispatch, c.reach.bad(j), c.own(j, e), c.down(e), j.unseenOf(t))
		if m.by.After(s.to) || c.mayBePaused(j, t, m.by) || c.mayBePaused(j, e.lo, e.hi) {
			if e.job.Overlap == "allow" || !c.passedBy(j, t, e.lo, s.to) {
				continue
			}
			m.by = c.never() // it cannot be late, but a newer one ran: it did too, or there is a record
		}
		c.musts = append(c.musts, m)
	}
}

// passedBy reports whether a newer time of the schedule than t ran between two instants: before, another
// definition may have had it. One that is lost tells of nothing.
func (w *world) passedBy(j *job, t, from, to time.Time) bool {
	runs := j.byTime()
	i := sort.Search(len(runs), func(i int) bool { return runs[i].first().Scheduled.After(t) })
	for ; i < len(runs) && runs[i].first().Scheduled.Before(to); i++ {
		if a := runs[i].first(); a.Cause == CauseSchedule && !a.At.Before(from) && a.At.Before(to) &&
			!w.lapses.vanished(runs[i]) {
			return true
		}
	}
	return false
}

// own is when a job's next run has to wait for something of its own.
func (w *world) own(j *job, e *effect) []span {
	var out []span
	if e.job.ConcurrencyKey != "" {
		out = w.taken(key{j.namespace, e.job.ConcurrencyKey})
	}
	if rates := w.rationed(j.namespace, e.job); len(rates) > 0 {
		out = merged(slices.Concat(out, rates))
	}
	if isDapr(e.job) {
		out = merged(slices.Concat(out, w.gated(j.namespace, e.job)))
	}
	if e.job.Overlap == "allow" || e.job.Overlap == "replace" {
		return out
	}
	return merged(slices.Concat(out, j.busy))
}

// limit is the most runs that the definition lets the schedule begin.
func (e *effect) limit() int {
	n := int(e.job.Repeats)
	if e.sched != nil && e.sched.runs > 0 && (n == 0 || e.sched.runs < n) {
		n = e.sched.runs
	}
	return n
}

// lifeEnds is a moment before which the job's life surely has not ended; zero = it has no end.
func (e *effect) lifeEnds() time.Time {
	switch {
	case !e.job.Expires.IsZero():
		return e.job.Expires
	case e.job.TTL == 0:
		return time.Time{}
	case isDapr(e.job) && e.job.Relative && !e.op.Answer.NextRun.IsZero():
		return e.op.Answer.NextRun.Add(e.job.TTL)
	case !e.job.Due.IsZero():
		return e.job.Due.Add(e.job.TTL)
	}
	return e.lo.Add(e.job.DueIn + e.job.TTL)
}

// lifeEnds is a moment before which the job's life surely has not ended under e. An edit that leaves the
// times alone leaves the end of life where an earlier definition put it, by the clock of then.
func (w *world) lifeEnds(j *job, e *effect) time.Time {
	end := w.lifeUnder(j, e)
	for _, x := range j.effects {
		if x.job != nil && x.job.TTL != 0 && x.job.TTL == e.job.TTL && x.lo.Before(e.lo) {
			end = earlier(end, w.lifeUnder(j, x))
		}
	}
	return end
}

// lifeUnder is the same for a life that began with e: one that is counted by the owner's clock may end
// sooner.
func (w *world) lifeUnder(j *job, e *effect) time.Time {
	end := e.lifeEnds()
	if isDapr(e.job) {
		j = nil // any node may have taken the call, and stamped it
	}
	if !end.IsZero() && e.job.TTL != 0 {
		end = end.Add(-w.wrong(j, e.lo, end))
	}
	return end
}

// accountFor finds out whether a time has run or has a record, and how late it was.
func (c *check) accountFor(m *must) {
	i := sort.Search(len(m.job.byTime()),
		func(i int) bool { return !m.job.byTime()[i].first().Scheduled.Before(m.at) })
	for ; i < len(m.job.byTime()) && m.job.byTime()[i].first().Scheduled.Equal(m.at); i++ {
		if a := m.job.byTime()[i].first(); a.Cause == CauseSchedule && (m.first == nil || a.At.Before(m.first.At)) {
			m.first = a
		}
	}
	m.skip = m.job.covered(m.at)
	switch {
	case m.first != nil && redriven(c.runs[m.first.RunID], m.first.At): // it had died before anybody saw it
	case m.first != nil && m.first.At.After(m.by):
		c.addf("L1", m.job.String(), "the run of %s began %v late, %v after the latest that can be excused",
			c.show(m.at), m.first.At.Sub(m.due), m.first.At.Sub(m.by))
	case m.first == nil && (m.job.dapr() || !m.skip && c.complete(m.job)):
		c.addf("S3", m.job.String(), "nothing is known of the run of %s, which had to begin by %s",
			c.show(m.at), c.show(m.by))
	}
	if m.first != nil {
		by := max(m.first.At.Sub(m.due), 0)
		c.lates = append(c.lates, lateness{m.job, by, by > c.k.Dispatch})
	}
}

// byTime is the job's runs by scheduled time.
func (j *job) byTime() []*run {
	if len(j.sorted) != len(j.runs) {
		j.sorted = slices.Clone(j.runs)
		slices.SortStableFunc(j.sorted, func(a, b *run) int {
			return a.first().Scheduled.Compare(b.first().Scheduled)
		})
	}
	return j.sorted
}

// complete reports whether what the history does not hold of a job did not happen: retention has not had a
// say.
func (w *world) complete(j *job) bool {
	keep := 1 << 30
	for _, e := range j.effects {
		if e.job != nil {
			keep = min(keep, cmp.Or(e.job.KeepRuns, 20))
		}
	}
	return w.h.Final.Whole && len(j.records) < keep
}

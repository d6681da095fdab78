package checker

import (
	"slices"
	"sort"
	"time"
)

// limitRules are about what is in force at a time: S9.
type limitRules struct{ *check }

// overlaps: S9, under serial and skip one run of the schedule is in force at a time, and so it is for a
// serial backfill. Under replace the older one is over when the newer begins.
func (c limitRules) overlaps(j *job) {
	c.replaced(j)
	beside := func(s *Job) bool { return s.Overlap == "allow" || s.Overlap == "replace" }
	var last span
	var holder *run
	for _, l := range c.leases(j, CauseSchedule) {
		overlap := holder != nil && holder != l.run && l.from.Before(last.to)
		if overlap && !c.hadRule(j, earlier(holder.first().Scheduled, l.run.first().Scheduled), l.from, beside) {
			c.addf("S9", j.String(), "run %s began at %s, while run %s was in force until %s", l.run.id,
				c.show(l.from), holder.id, c.show(last.to))
			c.v.Counters.Overlap = max(c.v.Counters.Overlap, last.to.Sub(l.from))
		}
		if holder == nil || l.to.After(last.to) {
			last, holder = l.span, l.run
		}
	}
}

// lease is the time that an attempt was surely in force.
type lease struct {
	span
	run *run
	i   int
}

// leases are those of a job's runs with a cause, by their beginning.
func (w *world) leases(j *job, cause string) []lease {
	var out []lease
	for _, r := range j.runs {
		for i, a := range r.attempts {
			if cause == "" || (a.Cause == cause && !redriven(r, a.At)) { // a redriven run goes beside the others
				out = append(out, lease{w.certain(r, i), r, i})
			}
		}
	}
	sort.SliceStable(out, func(i, k int) bool { return out[i].from.Before(out[k].from) })
	return out
}

// replaced looks for a run that succeeded after a newer one had begun.
func (c limitRules) replaced(j *job) {
	other := func(s *Job) bool { return s.Overlap != "replace" }
	newest := time.Time{}
	var by *run
	for _, r := range slices.Backward(j.runs) {
		if r.first().Cause != CauseSchedule {
			continue
		}
		for _, res := range r.results {
			if by == nil || !by.first().Scheduled.After(r.first().Scheduled) || redriven(r, res.Sent) ||
				redriven(by, res.Sent) {
				continue
			}
			late := res.Kind == Success && res.Verdict == Acked && res.Sent.After(newest.Add(c.k.Dispatch))
			if late && !said(r, res, newest) &&
				!c.fault(j, newest.Add(-time.Second), newest.Add(lazy+c.k.Dispatch), nil) &&
				!c.hadRule(j, earlier(r.first().Scheduled, r.first().At), newest, other) {
				c.addf("S9", j.String(), "run %s succeeded, though run %s had replaced it at %s", r.id,
					by.id, c.show(newest))
			}
		}
		newest, by = r.first().At, r
	}
}

// said reports whether the same result was sent before: it is answered as it was then.
func said(r *run, res *Result, by time.Time) bool {
	return slices.ContainsFunc(r.results, func(o *Result) bool {
		return o.Token == res.Token && o.Kind == res.Kind && !o.Sent.After(by)
	})
}

// limits: S9, no more attempts with one concurrency key are in force than its limit says when another begins.
func (c limitRules) limits() {
	groups, order := map[key][]lease{}, []key{}
	for _, k := range c.keys {
		j := c.jobs[k]
		for _, l := range c.leases(j, "") {
			name, sure := j.limitKey(l.run.attempts[l.i])
			if !sure || name == "" {
				continue // which key an attempt counted for is not certain
			}
			g := key{k.namespace, name}
			if groups[g] == nil {
				order = append(order, g)
			}
			groups[g] = append(groups[g], l)
		}
	}
	for _, g := range order {
		c.limited(g, groups[g])
	}
}

// limitKey is the concurrency key of the definition that an attempt is of, as its payload says.
func (j *job) limitKey(a *Attempt) (name string, sure bool) {
	for _, e := range j.effects {
		switch {
		case e.job == nil:
		case e.vague:
			return "", false
		case e.job.Payload != a.Payload:
		case sure && name != e.job.ConcurrencyKey:
			return "", false
		default:
			name, sure = e.job.ConcurrencyKey, true
		}
	}
	return name, sure
}

// limitOps are the operations that may have set the limits of a namespace.
func (w *world) limitOps(g key) (ops []*Op) {
	for i := range w.h.Ops {
		if o := &w.h.Ops[i]; o.Kind == PutNamespace && o.Namespace == g.namespace && o.Outcome != Fail {
			ops = append(ops, o)
		}
	}
	return ops
}

// replacedBy is until when the limits of an operation may have been in force.
func (w *world) replacedBy(g key, o *Op) time.Time {
	by := w.never()
	for _, x := range w.limitOps(g) {
		if x.Outcome == OK && o.Outcome == OK && !x.Invoke.Before(o.Return) {
			by = earlier(by, w.inForceBy(x))
		}
	}
	return by
}

// common is what spans have in common with one.
func common(spans []span, with span) (out []span) {
	for _, s := range spans {
		if s.from, s.to = later(s.from, with.from), earlier(s.to, with.to); s.from.Before(s.to) {
			out = append(out, s)
		}
	}
	return out
}

// taken is when all tokens of a concurrency key may have been taken, and a moment longer for each to be taken
// again: as many as any limit says that may have been in force then.
func (w *world) taken(g key) []span {
	if spans, ok := w.scarce[g]; ok {
		return spans
	}
	var all []span
	for _, k := range w.keys {
		j := w.jobs[k]
		keyed := func(e *effect) bool { return e.job != nil && (e.vague || e.job.ConcurrencyKey == g.name) }
		if k.namespace != g.namespace || !slices.ContainsFunc(j.effects, keyed) {
			continue
		}
		for _, r := range j.runs {
			for i := range r.attempts {
				s := w.possible(r, i)
				all = append(all, span{s.from, s.to.Add(w.k.Dispatch)})
			}
		}
		for _, u := range j.unseen {
			all = append(all, span{u.from, u.to.Add(w.k.Dispatch)})
		}
	}
	var out []span
	for _, o := range w.limitOps(g) {
		if n, ok := o.Limits[g.name]; ok {
			until := earlier(w.replacedBy(g, o), w.lapses.unset(o))
			out = append(out, common(crowded(all, n), span{o.Invoke, until})...)
		}
	}
	out = merged(out)
	w.scarce[g] = out
	return out
}

func (c limitRules) limited(g key, leases []lease) {
	sort.SliceStable(leases, func(i, k int) bool { return leases[i].from.Before(leases[k].from) })
	ops := c.limitOps(g)
	var ends []time.Time // of those in force, few
	for _, l := range leases {
		ends = slices.DeleteFunc(ends, func(t time.Time) bool { return !t.After(l.from) })
		if !l.to.After(l.from) {
			continue
		}
		most, limited := c.limitAt(ops, g.name, l.from)
		if !limited {
			continue // an attempt that began without a limit holds no permit
		}
		if ends = append(ends, l.to); len(ends) > most {
			c.addf("S9", g.String(), "%d attempts are in force at %s, and the limit is %d", len(ends),
				c.show(l.from), most)
			return
		}
	}
}

// limitAt is the highest limit that may have been in force just before t; false if there may have been none.
// A limit is in force everywhere a moment after it was acknowledged, or after what held up the nodes: who is
// out of reach keeps the tokens that it has.
func (c limitRules) limitAt(ops []*Op, name string, t time.Time) (most int, limited bool) {
	for _, o := range ops {
		over := slices.ContainsFunc(ops, func(x *Op) bool {
			return x.Outcome == OK && o.Outcome == OK && !x.Invoke.Before(o.Return) && c.inForceBy(x).Before(t)
		})
		if over || o.Invoke.After(t) || c.lapses.unset(o).Before(t) {
			continue
		}
		n, ok := o.Limits[name]
		if !ok {
			return 0, false
		}
		most = max(most, n)
		limited = limited || (o.Outcome == OK && c.inForceBy(o).Before(t))
	}
	return most, limited
}

// inForceBy is when the limits of an acknowledged operation held everywhere.
func (w *world) inForceBy(o *Op) time.Time {
	return deadline(o.Return, w.k.Dispatch+w.k.Apply, w.reach.worst)
}

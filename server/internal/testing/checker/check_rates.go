package checker

import (
	"slices"
	"sort"
	"time"
)

// rateRules are about how often attempts begin: S20.
type rateRules struct{ *check }

const (
	// wire is how much later than another one an attempt may come to its consumer that left at the same time.
	wire = 100 * time.Millisecond
	// rateHeard is how long after a rate was set a node may not have heard of it.
	rateHeard = 6 * time.Second
	// rateSlack is how long permits may be with a partition that does not use them, and how much of what came in
	// the next home does not count.
	rateSlack = 4 * time.Second
)

// every is the time in which one attempt more may begin.
func (r Rate) every() time.Duration { return r.Period / time.Duration(r.Count) }

// kept: S20, within any time no more attempts begin than their rate allows: of a concurrency key, or of a
// namespace. No fault is an excuse: what may have been used counts as used.
func (c rateRules) kept() {
	for i := range c.h.Ops {
		o := &c.h.Ops[i]
		if o.Kind != PutNamespace || o.Outcome != OK {
			continue
		}
		names := make([]string, 0, len(o.Rates))
		for name := range o.Rates {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			c.under(key{o.Namespace, name}, o.Rates[name], c.reign(o, name))
		}
	}
}

// reign is when a rate that an operation has set was surely in force everywhere.
func (c rateRules) reign(o *Op, name string) span {
	r := o.Rates[name]
	s := span{c.inForceBy(o).Add(rateHeard), earlier(c.h.End, c.lapses.unset(o))}
	for _, x := range c.limitOps(key{o.Namespace, name}) {
		switch other, rated := x.Rates[name]; {
		case x == o, rated && other == r, x.Outcome == OK && x.Return.Before(o.Invoke):
		case x.Invoke.After(o.Return):
			s.to = earlier(s.to, x.Invoke)
		default: // it may have taken effect at any time
			return span{}
		}
	}
	return s
}

// under judges the attempts that began in a stretch, with a bucket.
func (c rateRules) under(g key, r Rate, s span) {
	if !s.from.Before(s.to) {
		return
	}
	most := float64(r.Burst) + float64(wire)/float64(r.every())
	level, at := most, s.from
	for _, a := range ratedAttempts(c.world, g) {
		if a.At.Before(s.from) || !a.At.Before(s.to) {
			continue
		}
		level, at = min(most, level+float64(a.At.Sub(at))/float64(r.every())), a.At
		c.v.Counters.Rated++
		if level < 2 {
			c.v.Counters.RateNear++
		}
		if level--; level < -1e-9 {
			c.addf("S20", g.String(), "attempt %d of run %s begins at %s, and %d in %s, at most %d at once, is the rate: "+
				"by it %.2f more had to come in first", a.Number, a.RunID, c.show(a.At), r.Count, r.Period, r.Burst, -level)
			return
		}
	}
}

// ratedAttempts are those that are surely under a rate, by time.
func ratedAttempts(w *world, g key) (out []*Attempt) {
	for _, k := range w.keys {
		if k.namespace != g.namespace {
			continue
		}
		j := w.jobs[k]
		for _, r := range j.runs {
			for _, a := range r.attempts {
				name, sure := "", true
				if g.name != "" {
					name, sure = j.limitKey(a)
				}
				if sure && name == g.name {
					out = append(out, a)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *Attempt) int { return a.At.Compare(b.At) })
	return out
}

// rationed is when a job may have to wait because of rates: for so long after each attempt that took a permit
// as the next one takes to come in.
func (w *world) rationed(namespace string, of *Job) []span {
	var out []span
	for _, name := range slices.Compact([]string{"", of.ConcurrencyKey}) {
		out = append(out, rationedBy(w, key{namespace, name})...)
	}
	return merged(out)
}

func rationedBy(w *world, g key) []span {
	if spans, ok := w.rations[g]; ok {
		return spans
	}
	slowest := time.Duration(0)
	var rated []span // when a rate may have been in force
	for _, o := range w.limitOps(g) {
		if r, has := o.Rates[g.name]; has {
			slowest = max(slowest, r.every())
			rated = append(rated, span{o.Invoke, w.replacedBy(g, o).Add(rateHeard)})
		}
	}
	var out []span
	for _, k := range w.keys {
		j := w.jobs[k]
		keyed := func(e *effect) bool { return e.job != nil && (e.vague || e.job.ConcurrencyKey == g.name) }
		if slowest == 0 || k.namespace != g.namespace || g.name != "" && !slices.ContainsFunc(j.effects, keyed) {
			continue
		}
		for _, r := range j.runs {
			for _, a := range r.attempts {
				out = append(out, span{a.At, a.At.Add(slowest + rateSlack)})
			}
		}
		for _, u := range j.unseen {
			out = append(out, span{u.from, u.to.Add(slowest + rateSlack)})
		}
	}
	var within []span
	for _, r := range merged(rated) {
		within = append(within, common(out, r)...)
	}
	out = merged(within)
	w.rations[g] = out
	return out
}

// rated reports whether attempts of a namespace may be under a rate as a whole.
func (w *world) rated(namespace string) bool {
	return slices.ContainsFunc(w.limitOps(key{namespace, ""}), func(o *Op) bool {
		_, rated := o.Rates[""]
		return rated
	})
}

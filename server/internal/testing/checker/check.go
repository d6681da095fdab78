package checker

import (
	"fmt"
	"sort"
	"time"
)

// Spec is what is demanded of a history besides the invariants. The zero Spec demands one attempt.
type Spec struct {
	// A verdict of Passed needs this much to have happened; otherwise it is Unknown, as nothing has been
	// shown.
	MinStarts       int      // attempts; default 1
	MinEpochs       int      // claims of partitions beyond the first of each
	MinStaleRefused int      // results answered stale, and writes refused
	MinInfoApplied  int      // operations of unknown outcome that turned out to be applied
	MinInfoNot      int      // and that turned out not to be
	Faults          []string // kinds of faults that must have happened
	MustEverywhere  bool     // every tenth of the run must hold times that had to run

	Admin time.Duration // most time for one job's operations to be put in order; default 10 s
}

// Check judges a history. It is a pure function: the same history and spec give the same verdict, whatever
// runs it.
func Check(h History, spec Spec) Verdict {
	c := &check{world: index(&h), spec: spec, scarce: map[key][]span{}, crammed: map[gateKey][]span{},
		troubled: map[troubled][]span{}, v: Verdict{Profile: h.Profile, Seed: h.Seed, Build: h.Build}}
	c.expect()
	for _, id := range c.ids {
		r := c.runs[id]
		c.early(r)
		c.phantom(r)
		c.doneIsDone(r)
		c.staleIsRefused(r)
		if r.job.dapr() {
			c.streamed(r)
		} else {
			c.numbers(r)
			c.duplicates(r)
		}
		c.fresh(r)
		c.retries(r)
		c.tenant(r)
		c.deposed(r)
	}
	for _, k := range c.keys {
		j := c.jobs[k]
		c.kept(j)
		c.admin(j)
		c.overlaps(j)
		c.honest(j)
		c.delivered(j)
		c.newest(j)
		c.after(j)
		c.released(j)
		c.backfills(j)
		c.counted(j)
		c.distrust(j)
		c.stuck(j)
	}
	c.batches()
	c.mixed()
	c.limits()
	c.gates()
	c.silent()
	c.begins()
	c.claims()
	c.writes()
	c.lists()
	c.rest()
	c.fairness()
	c.sum()
	return c.v
}

// check is a judgement in the making.
type check struct {
	*world
	spec     Spec
	v        Verdict
	musts    []must
	lates    []lateness
	scarce   map[key][]span      // when the tokens of a concurrency key may have been taken; see taken
	crammed  map[gateKey][]span  // see gated
	troubled map[troubled][]span // see troubles
}

func (c *check) addf(invariant, job, format string, args ...any) {
	c.v.Violations = append(c.v.Violations, Violation{invariant, job, fmt.Sprintf(format, args...)})
}

func (c *check) warnf(job, format string, args ...any) {
	c.v.Warnings = append(c.v.Warnings, Violation{"", job, fmt.Sprintf(format, args...)})
}

// show is a time for people: from the start of the history.
func (c *check) show(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(c.h.Start).String()
}

// sum makes the verdict out of what was found.
func (c *check) sum() {
	v := &c.v
	v.Duration = c.h.End.Sub(c.h.Start)
	c.count()
	c.vacuity()
	sort.SliceStable(v.Violations, func(i, k int) bool {
		return v.Violations[i].String() < v.Violations[k].String()
	})
	switch {
	case len(v.Violations) > 0:
		v.Result = Failed
	case len(v.Vacuous) > 0:
		v.Result = Unknown
	default:
		v.Result = Passed
	}
	v.windows = c.musts
}

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
	c := newCheck(&h, spec)
	c.expect()
	for _, id := range c.ids {
		c.run(c.runs[id])
	}
	for _, k := range c.keys {
		c.job(c.jobs[k])
	}
	c.whole()
	c.sum()
	return c.v
}

// check is a judgement in the making: what is known of a history, what had to happen, and what was found. The
// rules are methods of types around it, one for each file of rules, so that each can be asked alone.
type check struct {
	*world
	spec     Spec
	v        Verdict
	musts    []must
	lates    []lateness
	troubled map[troubled][]span // see troubles
}

func newCheck(h *History, spec Spec) *check {
	return &check{world: index(h), spec: spec, troubled: map[troubled][]span{},
		v: Verdict{Profile: h.Profile, Seed: h.Seed, Build: h.Build}}
}

// run asks the rules about a run.
func (c *check) run(r *run) {
	runs, retries := runRules{c}, retryRules{c}
	runs.early(r)
	runs.phantom(r)
	runs.doneIsDone(r)
	runs.staleIsRefused(r)
	if r.job.dapr() {
		daprRules{c}.streamed(r)
	} else {
		runs.numbers(r)
		retries.duplicates(r)
	}
	runs.fresh(r)
	retries.retries(r)
	runs.tenant(r)
	storeRules{c}.deposed(r)
}

// job asks the rules about a job.
func (c *check) job(j *job) {
	calls, policies, rest := callRules{c}, policyRules{c}, restRules{c}
	calls.kept(j)
	calls.admin(j)
	limitRules{c}.overlaps(j)
	policies.honest(j)
	excludedRules{c}.none(j)
	deliveryRules{c}.delivered(j)
	policies.newest(j)
	policies.after(j)
	releaseRules{c}.released(j)
	policies.backfills(j)
	counterRules{c}.counted(j)
	rest.distrust(j)
	rest.stuck(j)
}

// whole asks the rules about the history as a whole.
func (c *check) whole() {
	calls, silence, store, rest := callRules{c}, silenceRules{c}, storeRules{c}, restRules{c}
	calls.batches()
	lapseRules{c}.mixed()
	limitRules{c}.limits()
	rateRules{c}.kept()
	daprRules{c}.gates()
	silence.silent()
	silence.begins()
	pausedRules{c}.held()
	store.claims()
	store.writes()
	calls.lists()
	rest.rest()
	rest.fairness()
}

func (c *check) addf(invariant, job, format string, args ...any) {
	c.v.Violations = append(c.v.Violations, Violation{invariant, job, fmt.Sprintf(format, args...)})
}

func (c *check) warnf(job, format string, args ...any) {
	c.v.Warnings = append(c.v.Warnings, Violation{"", job, fmt.Sprintf(format, args...)})
}

// show is a time for people: from the start of the history.
func (w *world) show(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(w.h.Start).String()
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

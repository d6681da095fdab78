package sim

import (
	"fmt"
	"sort"
	"time"
)

// Violation is a broken invariant of testing.md.
type Violation struct {
	Invariant string // "I1" …
	Job       string
	What      string
}

// String is the violation in a line.
func (v Violation) String() string { return v.Invariant + " " + v.Job + ": " + v.What }

// Check judges a ledger. It knows nothing of the product but what jobs mean, read naively.
func Check(l *Ledger) []Violation {
	c := &checker{l: l, ops: map[string][]Op{}, attempts: map[string][]Attempt{}, results: map[string][]Result{}}
	for _, o := range l.Ops {
		c.ops[o.Job] = append(c.ops[o.Job], o)
	}
	for _, a := range l.Attempts {
		c.attempts[a.RunID] = append(c.attempts[a.RunID], a)
	}
	for _, r := range l.Results {
		c.results[r.RunID] = append(c.results[r.RunID], r)
	}
	for id, as := range c.attempts {
		sort.SliceStable(as, func(i, k int) bool { return as[i].At.Before(as[k].At) })
		c.early(as)
		c.doneIsDone(as)
		c.staleIsRefused(id, as)
		c.invented(as)
		c.duplicates(as)
		c.retries(as)
	}
	for job, ops := range c.ops {
		c.lost(job, ops)
	}
	for _, left := range l.Left {
		c.addf("I12", "", "left behind: %s", left)
	}
	sort.Slice(c.found, func(i, k int) bool { return c.found[i].String() < c.found[k].String() })
	return c.found
}

type checker struct {
	l        *Ledger
	ops      map[string][]Op
	attempts map[string][]Attempt // by run id, in time order
	results  map[string][]Result
	found    []Violation
}

func (c *checker) addf(invariant, job, format string, args ...any) {
	c.found = append(c.found, Violation{invariant, job, fmt.Sprintf(format, args...)})
}

// early: I1, no attempt before the run's scheduled time.
func (c *checker) early(as []Attempt) {
	for _, a := range as {
		if a.At.Before(a.Scheduled) {
			c.addf("I1", a.Job, "run %s started %v early", a.RunID, a.Scheduled.Sub(a.At))
		}
	}
}

// doneIsDone: I4, no attempt after a success was acknowledged.
func (c *checker) doneIsDone(as []Attempt) {
	for _, r := range c.results[as[0].RunID] {
		if !r.Success || !r.Acked {
			continue
		}
		for _, a := range as {
			if a.At.After(r.Told) {
				c.addf("I4", a.Job, "run %s started %v after its success was acknowledged", a.RunID, a.At.Sub(r.Told))
			}
		}
	}
}

// staleIsRefused: I5, at most one attempt's success counts, and none that was sent after a newer attempt had begun. One
// verdict per result.
func (c *checker) staleIsRefused(id string, as []Attempt) {
	counted := map[string]bool{}
	for _, r := range c.results[id] {
		if !r.Acked {
			continue
		}
		if r.Success {
			counted[r.Token] = true
		}
		for _, a := range as {
			newer := a.Token != r.Token && a.Number >= r.Number && a.At.Before(r.Sent)
			if newer && !c.fault(a.At.Add(-time.Second), r.Sent) && c.seenAfter(as, a, r.Token) {
				c.addf("I5", a.Job, "run %s: the result of attempt %d was accepted after attempt %d had begun", id, r.Number, a.Number)
			}
		}
	}
	if len(counted) > 1 {
		c.addf("I5", as[0].Job, "run %s: %d attempts succeeded", id, len(counted))
	}
}

// seenAfter reports whether a was handed out after the attempt with the token.
func (c *checker) seenAfter(as []Attempt, a Attempt, token string) bool {
	for _, other := range as {
		if other.Token == token {
			return a.At.After(other.At)
		}
	}
	return false
}

// invented: I3, every run of the schedule belongs to a put.
func (c *checker) invented(as []Attempt) {
	a := as[0]
	if a.Cause != "schedule" {
		return
	}
	for _, o := range c.ops[a.Job] {
		if o.Kind != "put" || o.Outcome == Failed {
			continue
		}
		switch {
		case o.Outcome == Unknown && !o.From.After(a.At): // it may be what ran
			return
		case o.Spec.Every == 0 && o.First.Equal(a.Scheduled):
			return
		case o.Spec.Every != 0 && a.Scheduled.Sub(o.First)%o.Spec.Every == 0:
			return
		}
	}
	c.addf("I3", a.Job, "run %s at %v belongs to no put", a.RunID, a.Scheduled)
}

// duplicates: I9, a second attempt needs a cause between the first and itself.
func (c *checker) duplicates(as []Attempt) {
	for i := 1; i < len(as); i++ {
		if !c.justified(as[i-1], as[i]) {
			c.addf("I9", as[i].Job, "run %s was attempted again without a cause, %v after attempt %d",
				as[i].RunID, as[i].At.Sub(as[i-1].At), as[i-1].Number)
		}
	}
}

func (c *checker) justified(before, a Attempt) bool {
	if c.fault(before.At.Add(-time.Second), a.At) {
		return true
	}
	for _, r := range c.results[a.RunID] {
		if !r.Success && r.Token == before.Token && !r.Sent.After(a.At) {
			return true
		}
	}
	for _, o := range c.ops[a.Job] {
		if o.Kind == "put" && o.Outcome != Failed && !o.To.Before(before.At) && !o.From.After(a.At) {
			return true
		}
	}
	return a.At.Sub(before.At) >= c.lease(a.Job)
}

// lease is the shortest lease that the job has had.
func (c *checker) lease(job string) time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for _, o := range c.ops[job] {
		if o.Kind == "put" && o.Outcome != Failed {
			shortest = min(shortest, o.Spec.Lease)
		}
	}
	return shortest
}

// retries: I11, a retry comes no sooner than the policy's delay after the failure, and there are no more than it allows.
func (c *checker) retries(as []Attempt) {
	var puts []Op
	for _, o := range c.ops[as[0].Job] {
		if o.Kind == "put" && o.Outcome != Failed {
			puts = append(puts, o)
		}
	}
	delay, most := time.Duration(1<<63-1), 0
	for _, o := range puts {
		delay, most = min(delay, o.Spec.Delay), max(most, o.Spec.Retries+1)
	}
	for i, a := range as {
		// Every edit in between may hand out one attempt more.
		if a.Number > most+len(puts) {
			c.addf("I11", a.Job, "run %s: attempt %d, and the policy allows %d", a.RunID, a.Number, most)
		}
		if i == 0 || len(puts) > 1 {
			continue
		}
		for _, r := range c.results[a.RunID] {
			if r.Token == as[i-1].Token && !r.Success && r.Acked && a.At.Sub(r.Sent) < delay {
				c.addf("I11", a.Job, "run %s: attempt %d came %v after a failure, before the %v of the policy",
					a.RunID, a.Number, a.At.Sub(r.Sent), delay)
			}
		}
	}
}

// lost: I2, what was acknowledged and not taken back has run or has a record that says why not.
func (c *checker) lost(job string, ops []Op) {
	for i, o := range ops {
		if o.Outcome != OK {
			continue
		}
		later := ops[i+1:]
		switch {
		case o.Kind == "trigger" && !anyOf(later, "delete"):
			if !c.attempted(o.RunID) {
				c.addf("I2", job, "the triggered run %s never ran", o.RunID)
			}
		case o.Kind == "put" && !anyOf(later, "delete", "put"):
			c.ran(job, o, anyOf(later, "pause"))
		}
	}
}

// ran checks the times of a job's last put.
func (c *checker) ran(job string, put Op, paused bool) {
	if put.Spec.Every == 0 {
		if !put.First.IsZero() && !c.accounted(job, put.First) {
			c.addf("I2", job, "the one-shot due at %v never ran", put.First)
		}
		return
	}
	if paused {
		return // which times fell into the pause is not known to the second
	}
	for t := put.First; !t.IsZero() && t.Before(c.l.End.Add(-30*time.Second)); t = t.Add(put.Spec.Every) {
		if !c.accounted(job, t) {
			c.addf("I2", job, "nothing is known of the run of %v", t)
		}
	}
}

func anyOf(ops []Op, kinds ...string) bool {
	for _, o := range ops {
		for _, k := range kinds {
			if o.Kind == k && o.Outcome != Failed {
				return true
			}
		}
	}
	return false
}

func (c *checker) attempted(id string) bool {
	if len(c.attempts[id]) > 0 {
		return true
	}
	for _, h := range c.l.History {
		if h.RunID == id {
			return true
		}
	}
	return false
}

// accounted reports whether a scheduled time was attempted or is in the history, alone or within a stretch.
func (c *checker) accounted(job string, t time.Time) bool {
	for _, a := range c.l.Attempts {
		if a.Job == job && a.Cause == "schedule" && a.Scheduled.Equal(t) {
			return true
		}
	}
	for _, h := range c.l.History {
		if h.Job == job && h.Cause == "schedule" && (h.Scheduled.Equal(t) || (h.Skipped > 0 && !t.Before(h.From) && !t.After(h.Scheduled))) {
			return true
		}
	}
	return false
}

// fault reports whether anything was wrong with the node, or a worker left, between two instants.
func (c *checker) fault(from, to time.Time) bool {
	for _, f := range c.l.Faults {
		if !f.To.Before(from) && !f.From.After(to) {
			return true
		}
	}
	return false
}

package checker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Judgement is what a verdict comes to.
type Judgement string

// The judgements.
const (
	Passed  Judgement = "PASS"
	Failed  Judgement = "FAIL"
	Unknown Judgement = "UNKNOWN" // nothing was violated, and too little happened to say more
)

// Verdict is what was found in a history.
type Verdict struct {
	Profile    string
	Seed       uint64
	Build      string
	Duration   time.Duration
	Result     Judgement
	Violations []Violation
	Warnings   []Violation `json:",omitempty"`
	Vacuous    []string    `json:",omitempty"` // what would have had to happen
	Counters   Tally
	Lateness   Lateness
	Recovery   []Recovered `json:",omitempty"`
	Porcupine  struct{ Checked, Unknown int }
	Coverage   map[string]int // faults by kind

	windows []must
}

// Violation is a broken invariant (S1 … S20, L1 … L4, I11); each is where it is checked.
type Violation struct {
	Invariant string
	Job       string
	What      string
}

// String is the violation in a line.
func (v Violation) String() string {
	return strings.TrimSpace(v.Invariant + " " + v.Job + ": " + v.What)
}

// Tally counts what happened.
type Tally struct {
	// Musts: times that had to run; Skipped: those of them with a record that says why not
	Starts, Runs, Musts, Skipped int
	Duplicates, Unjustified      int // attempts after the first
	// attempts surely under a rate, and those of them that left less than one in its bucket
	Rated, RateNear      int
	Epochs, StaleRefused int
	InfoApplied, InfoNot int           // operations of unknown outcome
	Overlap              time.Duration // longest certain overlap of runs that must not
}

// Lateness is how late runs began that had to.
type Lateness struct {
	P50, P99, Max time.Duration
	Excused       time.Duration // the longest that a fault, or the job itself, excused
}

// Recovered is how long after a fault the last run that was late because of it began.
type Recovered struct {
	Fault string
	At    time.Duration // from the start
	Took  time.Duration
}

// count fills in the numbers.
func (c *check) count() {
	t := &c.v.Counters
	t.Starts, t.Runs, t.Musts = len(c.h.Attempts), len(c.ids), len(c.musts)
	for _, m := range c.musts {
		if m.skip && m.first == nil {
			t.Skipped++
		}
	}
	for _, r := range c.h.Results {
		if r.Verdict == Stale {
			t.StaleRefused++
		}
	}
	for _, k := range c.keys {
		for _, o := range c.jobs[k].ops {
			if o.Outcome != Info || !o.defines() || o.Spec == nil {
				continue
			}
			i := slices.IndexFunc(c.jobs[k].effects, func(e *effect) bool { return e.op == o })
			switch {
			case i < 0:
				t.InfoNot++
			case c.jobs[k].effects[i].sure:
				t.InfoApplied++
			}
		}
	}
	c.v.Coverage = map[string]int{}
	for _, f := range c.h.Faults {
		c.v.Coverage[f.Kind]++
	}
	c.lateness()
	c.recovery()
}

func (c *check) lateness() {
	var all []time.Duration
	for _, l := range c.lates {
		all = append(all, l.by)
		if l.excused {
			c.v.Lateness.Excused = max(c.v.Lateness.Excused, l.by)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	l := &c.v.Lateness
	l.P50, l.P99, l.Max = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
}

func (c *check) recovery() {
	for _, f := range c.h.Faults {
		if f.worker() {
			continue
		}
		took := time.Duration(0)
		for _, m := range c.musts {
			if m.first != nil && m.due.Before(f.To.Add(c.k.Recovery)) && m.first.At.After(f.To) &&
				m.first.At.Sub(m.due) > c.k.Dispatch {
				took = max(took, m.first.At.Sub(f.To))
			}
		}
		c.v.Recovery = append(c.v.Recovery, Recovered{f.Kind, f.From.Sub(c.h.Start), took})
	}
}

// vacuity notes what did not happen and should have: a history in which nothing went wrong shows nothing.
func (c *check) vacuity() {
	need := func(what string, have, want int) {
		if have < want {
			c.v.Vacuous = append(c.v.Vacuous, fmt.Sprintf("%s: %d, want %d", what, have, want))
		}
	}
	t := &c.v.Counters
	need("attempts", t.Starts, cmp.Or(c.spec.MinStarts, 1))
	need("epochs", t.Epochs, c.spec.MinEpochs)
	need("stale results and writes refused", t.StaleRefused, c.spec.MinStaleRefused)
	need("unknown operations that were applied", t.InfoApplied, c.spec.MinInfoApplied)
	need("unknown operations that were not", t.InfoNot, c.spec.MinInfoNot)
	for _, kind := range c.spec.Faults {
		need("faults of kind "+kind, c.v.Coverage[kind], 1)
	}
	if !c.spec.MustEverywhere {
		return
	}
	tenth := c.h.End.Sub(c.h.Start) / 10
	for i := range 10 {
		from := c.h.Start.Add(time.Duration(i) * tenth)
		n := 0
		for _, m := range c.musts {
			if !m.at.Before(from) && m.at.Before(from.Add(tenth)) {
				n++
			}
		}
		need(fmt.Sprintf("times that had to run from %v to %v", time.Duration(i)*tenth, time.Duration(i+1)*tenth),
			n, 1)
	}
}

// WriteJSON writes verdict.json.
func (v Verdict) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("checker: write the verdict: %w", err)
	}
	return nil
}

// String is the verdict for people: a line, and one for each violation.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s seed %d: %d attempts of %d runs, %d had to run, %d duplicates, lateness p50 %v p99 %v max %v\n", v.Result, v.Profile,
		v.Seed, v.Counters.Starts, v.Counters.Runs, v.Counters.Musts, v.Counters.Duplicates, v.Lateness.P50,
		v.Lateness.P99, v.Lateness.Max)
	for _, x := range v.Violations {
		fmt.Fprintln(&b, "  ", x)
	}
	for _, x := range v.Vacuous {
		fmt.Fprintln(&b, "   too little happened:", x)
	}
	return b.String()
}

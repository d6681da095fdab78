package checker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// underRate is a job whose runs are triggered at some times, under a rate that was set at the beginning: 2 in 1 s,
// at most 3 at once.
func underRate(name string, at ...float64) *tale {
	t := newTale()
	t.op(Op{Kind: PutNamespace, Rates: map[string]Rate{name: {Count: 2, Period: time.Second, Burst: 3}}}, 0, 0.1)
	t.put("a", Job{Schedule: "@every 10s", Payload: "p", Overlap: "allow", ConcurrencyKey: "k"}, 0.2, 10)
	t.is("a")
	for i, s := range at {
		t.attempt("a", s, s, 1)
		t.Attempts[len(t.Attempts)-1].RunID = fmt.Sprint("r", i)
	}
	return t
}

// rates are what is found of S20.
func rates(t *tale) (found []string) {
	c := newCheck(&t.History, Spec{})
	rateRules{c}.kept()
	for _, v := range c.v.Violations {
		found = append(found, v.String())
	}
	return found
}

// TestRates: at most as many attempts begin in any time as the rate allows, of a key and of a namespace.
func TestRates(t *testing.T) {
	for _, name := range []string{"k", ""} {
		for _, c := range []struct {
			what   string
			tale   *tale
			broken bool
		}{
			{"a burst, and one more when it has come in", underRate(name, 20, 20, 20, 20.5), false},
			{"one more than a burst", underRate(name, 20, 20, 20, 20.2), true},
			{"at the rate, for long", underRate(name, 20, 20, 20, 20.5, 21, 21.5, 22, 22.5, 23), false},
			{"a little faster than that", underRate(name, 20, 20, 20, 20.45, 20.9, 21.35, 21.8, 22.25, 22.7), true},
			{"a pause fills the bucket no further than the burst", underRate(name, 20, 40, 40, 40, 40.2), true},
			{"before every node has heard of it", underRate(name, 1, 1, 1, 1, 1), false},
		} {
			found := rates(c.tale)
			if broken := len(found) > 0; broken != c.broken {
				t.Errorf("%s, key %q: found %q", c.what, name, found)
			}
			if c.broken && !strings.HasPrefix(found[0], "S20 n/"+name+": ") {
				t.Errorf("%s: %s", c.what, found[0])
			}
		}
	}
}

// TestRatesThatChange: nothing is certain while another one may be in force.
func TestRatesThatChange(t *testing.T) {
	for _, c := range []struct {
		what   string
		op     Op
		from   float64
		broken bool
	}{
		{"the same is set again", Op{Rates: map[string]Rate{"k": {Count: 2, Period: time.Second, Burst: 3}}}, 15, true},
		{"it is taken away before", Op{}, 15, false},
		{"it is taken away afterwards", Op{}, 25, true},
		{"it may have been taken away at any time", Op{Outcome: Info}, 0.05, false},
		{"it was another one before", Op{Rates: map[string]Rate{"k": {Count: 9, Period: time.Second, Burst: 9}}}, -1, true},
	} {
		tale := underRate("k", 20, 20, 20, 20.2)
		c.op.Kind = PutNamespace
		tale.op(c.op, c.from, c.from+0.02)
		if found := rates(tale); len(found) > 0 != c.broken {
			t.Errorf("%s: found %q", c.what, found)
		}
	}
}

// TestWhatARateHoldsBackIsNotLate, as long as others take its permits; later it is.
func TestWhatARateHoldsBackIsNotLate(t *testing.T) {
	for ran, late := range map[float64]bool{31: false, 36: false, 48: true} {
		tale := underRate("k", 19, 19.5, 20, 20.5, 21, 21.5)
		for i := range tale.Attempts {
			tale.Attempts[i].Cause = CauseTrigger
		}
		tale.Ops[1].Spec.Schedule, tale.Ops[1].Answer.NextRun = "", sec(20)
		for s := 22.0; s < 35; s += 0.5 {
			tale.attempt("a", s, s, 1).Cause = CauseTrigger
		}
		tale.attempt("a", 20, ran, 1)
		c := newCheck(&tale.History, Spec{})
		c.expect()
		found := false
		for _, v := range c.v.Violations {
			found = found || v.Invariant == "L1"
		}
		if found != late {
			t.Errorf("due at 20 s it began at %v s: %v", ran, c.v.Violations)
		}
	}
}

package sim_test

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// firstSeed is the first seed up to most under which the checker finds the mutant, and what it finds; 0 =
// none does.
func firstSeed(t *testing.T, m mutant, most uint64) (uint64, checker.Verdict) {
	t.Helper()
	for seed := uint64(1); seed <= most && !t.Failed(); seed++ {
		p := m.profile.Generate(seed)
		if v := judge(t, m, &p); v.Result == checker.Failed {
			return seed, v
		}
	}
	return 0, checker.Verdict{}
}

// judge lives through a plan with the bug planted. The harness's own troubles do not count: a broken product
// may be beyond reading at the end.
func judge(t *testing.T, m mutant, p *sim.Plan) checker.Verdict {
	t.Helper()
	var h checker.History
	var err error
	synctest.Test(t, func(*testing.T) { h, err = sim.Run(p, sim.Options{Mutant: m.make(p)}) })
	if err != nil && len(h.Attempts) == 0 {
		t.Fatalf("seed %d: %v", p.Seed, err)
	}
	return checker.Check(h, checker.Spec{Admin: time.Second})
}

// TestMutants: each planted bug is found within 200 seeds, and by the invariant that it breaks.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("-short is given: what finds a mutant are the seeds, of which it has few")
	}
	for _, m := range slices.Concat(mutants, policyMutants, doubtMutants, clusterMutants,
		lapseMutants, sleepMutants, unfitMutants, gateMutants, haltMutants,
		dateMutants, awayMutants, rateMutants) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			most := uint64(200)
			seed, v := firstSeed(t, m, most)
			if seed == 0 {
				t.Fatalf("not found in %d seeds", most)
			}
			by := map[string]bool{}
			for _, x := range v.Violations {
				by[x.Invariant] = true
			}
			t.Logf("seed %d, %d violations: %s", seed, len(v.Violations), v.Violations[0])
			if len(m.by) > 0 && !slices.ContainsFunc(m.by, func(i string) bool { return by[i] }) {
				t.Errorf("found by %v, want one of %v", v.Violations, m.by)
			}
		})
	}
}

// TestShrink drops nearly everything from a plan under which a mutant is found, and what is left finds it
// again.
func TestShrink(t *testing.T) {
	i := slices.IndexFunc(mutants, func(m mutant) bool {
		return m.name == "a pause is acknowledged and not made"
	})
	m := mutants[i]
	seed, v := firstSeed(t, m, 200)
	if seed == 0 {
		t.Fatal("nothing to shrink")
	}
	invariant := v.Violations[0].Invariant
	p := m.profile.Generate(seed)
	fails := func(q sim.Plan) bool {
		v := judge(t, m, &q)
		return slices.ContainsFunc(v.Violations, func(x checker.Violation) bool { return x.Invariant == invariant })
	}
	small := sim.Shrink(p, 500, fails)
	t.Logf("seed %d, %s: %d operations and %d faults of %d and %d are left", seed, invariant, len(small.Ops),
		len(small.Faults), len(p.Ops), len(p.Faults))
	if len(small.Ops) > 5 || len(small.Faults) > 1 || len(small.Habits) > 1 {
		t.Errorf("left: %+v", small)
	}
	var text bytes.Buffer
	if err := small.Encode(&text); err != nil {
		t.Fatal(err)
	}
	again, err := sim.ReadPlan(&text)
	if err != nil {
		t.Fatal(err)
	}
	if !fails(again) {
		t.Error("written down and read back, it does not fail any more")
	}
	for k := range small.Ops {
		q := small
		q.Ops = slices.Delete(slices.Clone(small.Ops), k, k+1)
		if fails(q) {
			t.Errorf("operation %d could still be dropped", k)
		}
	}
}

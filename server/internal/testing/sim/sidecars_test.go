package sim_test

import (
	"flag"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

var sidecarSeeds = flag.Int("sidecar-seeds", 100,
	"how many seeds TestSidecars lives through, and TestSidecarsOfACluster half as many; a 25th of them with -short")

// TestSidecars lives through seeds whose jobs are all Dapr's, with every fault of a node and of sidecars.
func TestSidecars(t *testing.T) { withSidecars(t, sim.Sidecars, *sidecarSeeds) }

// TestSidecarsMove lives through seeds in which nodes come and leave in order, and only sidecars misbehave.
func TestSidecarsMove(t *testing.T) { withSidecars(t, sim.SidecarsMove, *sidecarSeeds/2) }

// TestSidecarsOfACluster is TestSidecars on several nodes.
func TestSidecarsOfACluster(t *testing.T) { withSidecars(t, sim.SidecarsOfACluster, *sidecarSeeds/2) }

func withSidecars(t *testing.T, profile sim.Profile, n int) {
	t.Helper()
	n = fewer(n)
	var sum tally
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := profile.Generate(i)
		h := live(t, &p, sim.Options{})
		v := checker.Check(h, checker.Spec{})
		sum.add(&h, &v)
		if v.Result == checker.Failed {
			t.Errorf("%s%s", v, sum.replay(t, &p, &v))
		}
	})
	t.Log(sum.String())
	if !t.Failed() {
		sum.enoughSidecars(t, profile, n)
	}
}

// enoughSidecars fails if too little happened for a verdict on sidecars.
func (s *tally) enoughSidecars(t *testing.T, profile sim.Profile, n int) {
	t.Helper()
	need := func(what string, have, want int) {
		if have < want {
			t.Errorf("too little happened: %s %d, want %d", what, have, want)
		}
	}
	need("attempts", s.attempts, 40*n)
	need("deliveries again", s.duplicates, n)
	if n < 100 {
		return
	}
	for _, kind := range profile.Faults {
		need("faults of kind "+string(kind), s.faults[string(kind)], n/20)
	}
	for _, w := range profile.Kinds {
		need("operations of kind "+string(w.Kind), s.ops[w.Kind][checker.OK], n/20)
	}
}

// TestSidecarsAtEase: without faults every run is delivered once, unless its job is replaced.
func TestSidecarsAtEase(t *testing.T) {
	eachSeed(t, *sidecarSeeds/4, func(t *testing.T, i uint64) {
		p := sim.SidecarsAtEase.Generate(i)
		h := live(t, &p, sim.Options{})
		if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
		tokens := map[string]bool{}
		for k := range h.Attempts {
			if a := &h.Attempts[k]; a.Number != 1 || tokens[a.RunID] {
				t.Errorf("seed %d: %+v", i, *a)
			}
			tokens[h.Attempts[k].RunID] = true
		}
	})
}

// TestReplayOfSidecars: a seed gives the same run each time.
func TestReplayOfSidecars(t *testing.T) {
	for _, profile := range []sim.Profile{sim.Sidecars, sim.SidecarsOfACluster} {
		t.Run(profile.Name, func(t *testing.T) {
			each(t, fewer(20), func(t *testing.T, i uint64) {
				p := profile.Generate(i)
				again(t, &p)
			})
		})
	}
}

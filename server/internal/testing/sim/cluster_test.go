package sim_test

import (
	"flag"
	"runtime"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

var clusterSeeds = flag.Int("cluster-seeds", 100,
	"how many seeds TestCluster lives through; a 25th of them with -short")

// TestCluster lives through seeds in which several nodes share the partitions, with every fault of a cluster.
func TestCluster(t *testing.T) {
	n := fewer(*clusterSeeds)
	var sum tally
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Cluster.Generate(i)
		h := live(t, &p, sim.Options{})
		v := checker.Check(h, checker.Spec{})
		sum.add(&h, &v)
		if v.Result == checker.Failed {
			t.Errorf("%s%s", v, sum.replay(t, &p, &v))
		}
	})
	t.Log(sum.String())
	if !t.Failed() {
		sum.enoughOfACluster(t, n)
	}
}

// enoughOfACluster fails if too little happened for a verdict on a cluster.
func (s *tally) enoughOfACluster(t *testing.T, n int) {
	t.Helper()
	need := func(what string, have, want int) {
		if have < want {
			t.Errorf("too little happened: %s %d, want %d", what, have, want)
		}
	}
	need("attempts", s.attempts, 40*n)
	need("changes of owners", s.epochs, 8*n)
	if n < 100 {
		return
	}
	for _, kind := range sim.Cluster.Faults {
		need("faults of kind "+string(kind), s.faults[string(kind)], n/20)
	}
	for _, w := range sim.Cluster.Kinds {
		need("operations of kind "+string(w.Kind), s.ops[w.Kind][checker.OK], n/20)
	}
}

// TestMovesInOrder: nodes that come and leave as they should make nothing late and nothing double, whatever
// moves.
func TestMovesInOrder(t *testing.T) {
	n := fewer(*clusterSeeds / 4)
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Moves.Generate(i)
		h := live(t, &p, sim.Options{})
		v := checker.Check(h, checker.Spec{})
		if v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
		for k := range h.Attempts {
			a := &h.Attempts[k]
			if a.Number != 1 && !editedSince(&h, a) {
				t.Errorf("seed %d: %+v", i, *a)
			}
		}
	})
}

// TestLimitsOfACluster: a limit is raised and lowered while attempts in several nodes hold its permits, and
// its home moves. There are never more of them than it says, and nobody waits for a permit that is free.
func TestLimitsOfACluster(t *testing.T) {
	n := fewer(*clusterSeeds / 4)
	for _, profile := range []sim.Profile{sim.Permits, sim.Torn} {
		t.Run(profile.Name, func(t *testing.T) {
			eachSeed(t, n, func(t *testing.T, i uint64) {
				p := profile.Generate(i)
				h := live(t, &p, sim.Options{})
				if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
					t.Errorf("%s", v)
				}
			})
		})
	}
}

// TestReplayOfACluster: a seed gives the same run each time, however many nodes there are, on one processor. On
// several, a node that joins or leaves may ask its store once more than the last time: two of its goroutines
// have woken the one that asks, before it has begun or after.
func TestReplayOfACluster(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	each(t, fewer(20), func(t *testing.T, i uint64) {
		p := sim.Cluster.Generate(i)
		again(t, &p)
	})
}

// TestANodeIsBarred: it lives, and cannot claim or commit. The others do all the work, and nothing is late
// for longer than after a crash.
func TestANodeIsBarred(t *testing.T) {
	n := fewer(*clusterSeeds / 4)
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Bars.Generate(i)
		h := live(t, &p, sim.Options{})
		if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
	})
}

// TestAllNodesLeave at about the same time: what workers have is finished, and no run is attempted twice.
func TestAllNodesLeave(t *testing.T) {
	n := fewer(*clusterSeeds / 4)
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Ends.Generate(i)
		h := live(t, &p, sim.Options{})
		if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
		for k := range h.Attempts {
			if a := &h.Attempts[k]; a.Number != 1 && !editedSince(&h, a) {
				t.Errorf("seed %d: %+v", i, *a)
			}
		}
	})
}

// editedSince reports whether something may have fenced the attempt, or asked for another.
func editedSince(h *checker.History, a *checker.Attempt) bool {
	return slices.ContainsFunc(h.Ops, func(o checker.Op) bool {
		again := o.Kind == checker.Put || o.Kind == checker.Patch || o.Kind == checker.BatchPut ||
			o.Kind == checker.Redrive
		return again && o.Job == a.Job && o.Namespace == a.Namespace && o.Return.After(a.Scheduled)
	})
}

package sim_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/health"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
	"github.com/carillonhq/carillon/server/store"
)

// TestTheStoreFailsOver again and again: nothing that was acknowledged is denied, and every node is ready
// soon after the last time.
func TestTheStoreFailsOver(t *testing.T) {
	n := fewer(*clusterSeeds / 4)
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Failovers.Generate(i)
		h := live(t, &p, sim.Options{})
		if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
			t.Errorf("%s", v)
		}
	})
}

// resentful takes a partition that has failed once for one that fails from then on.
type resentful struct {
	cluster.Local
	mu    sync.Mutex
	since map[int]time.Time
}

// Failing is for [cluster.Local].
func (r *resentful) Failing() (out []health.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.Local.Failing() {
		if r.since[x.Partition].IsZero() {
			r.since[x.Partition] = time.Now()
		}
	}
	for p, since := range r.since {
		out = append(out, health.Failure{Partition: p, For: time.Since(since), Err: store.ErrUnknown})
	}
	return out
}

// TestAFailoverThatCountsAgainstANodeIsFound: partitions are refused for what befalls all, and nodes are not
// ready.
func TestAFailoverThatCountsAgainstANodeIsFound(t *testing.T) {
	mutant := sim.Mutant{Local: func(l cluster.Local, _ store.Store, _ string) cluster.Local {
		return &resentful{Local: l, since: map[int]time.Time{}}
	}}
	for seed := uint64(1); seed <= 50; seed++ {
		p := sim.Failovers.Generate(seed)
		var err error
		synctest.Test(t, func(*testing.T) { _, err = sim.Run(&p, sim.Options{Mutant: mutant}) })
		if err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Error("not found in 50 seeds")
}

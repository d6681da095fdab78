package sim_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// TestTheStoreIsAway while critical runs leave nevertheless: none is early, under another owner's lease, lost
// or denied, and one that leaves twice is in doubt.
func TestTheStoreIsAway(t *testing.T) {
	n := fewer(*clusterSeeds / 12)
	var sum tally
	var left atomic.Int64
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Away.Generate(i)
		h := live(t, &p, sim.Options{})
		v := checker.Check(h, checker.Spec{})
		sum.add(&h, &v)
		left.Add(int64(leftMeanwhile(&h)))
		if v.Result == checker.Failed {
			t.Errorf("%s%s", v, sum.replay(t, &p, &v))
		}
	})
	t.Logf("%d attempts left while the store was away\n%s", left.Load(), sum.String())
	if want := n / 4; int(left.Load()) < want {
		t.Errorf("too little happened: %d attempts left while the store was away, want %d", left.Load(), want)
	}
}

// leftMeanwhile is how many attempts left while the store had been away for a while.
func leftMeanwhile(h *checker.History) (n int) {
	for i := range h.Attempts {
		for _, f := range h.Faults {
			if a := &h.Attempts[i]; f.Kind == string(sim.StoreAway) && a.At.Sub(f.From) > 2*time.Second &&
				a.At.Before(f.To.Add(-3*time.Second)) {
				n++
				break
			}
		}
	}
	return n
}

package sim_test

import (
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// TestTheStoreGoesBack to what it held a while ago: what was acknowledged since is lost, nothing else is, and
// no call is half in the history that is gone and half in the one that goes on.
func TestTheStoreGoesBack(t *testing.T) {
	n := fewer(*clusterSeeds / 2)
	var sum tally
	eachSeed(t, n, func(t *testing.T, i uint64) {
		p := sim.Lapses.Generate(i)
		h := live(t, &p, sim.Options{})
		v := checker.Check(h, checker.Spec{})
		sum.add(&h, &v)
		if v.Result == checker.Failed {
			t.Errorf("%s%s", v, sum.replay(t, &p, &v))
		}
	})
	t.Log(sum.String())
}

// TestReplayOfALapse: a seed in which the store goes back gives the same run each time.
func TestReplayOfALapse(t *testing.T) {
	each(t, fewer(5), func(t *testing.T, i uint64) {
		p := sim.Lapses.Generate(i)
		again(t, &p)
	})
}

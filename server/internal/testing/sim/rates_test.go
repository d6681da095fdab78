package sim_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// TestRatesHold: no more attempts begin than rates of a key and of a namespace allow, on a node that is killed and
// among several of which some are, and what was held back runs.
func TestRatesHold(t *testing.T) {
	for _, profile := range []sim.Profile{sim.Rates, sim.RatesOfACluster} {
		t.Run(profile.Name, func(t *testing.T) {
			n := fewer(*seeds / 5)
			var rated, near atomic.Int64
			eachSeed(t, n, func(t *testing.T, i uint64) {
				p := profile.Generate(i)
				h := live(t, &p, sim.Options{})
				v := checker.Check(h, checker.Spec{})
				if v.Result == checker.Failed {
					t.Errorf("%s", v)
				}
				rated.Add(int64(v.Counters.Rated))
				near.Add(int64(v.Counters.RateNear))
			})
			t.Logf("%d attempts under a rate, %d of them at its edge", rated.Load(), near.Load())
			if rated.Load() < int64(20*n) || near.Load() < int64(2*n) {
				t.Errorf("%d attempts under a rate, %d of them at its edge, in %d seeds show nothing", rated.Load(), near.Load(), n)
			}
		})
	}
}

// rateMutants are aimed at rates.
var rateMutants = []mutant{
	{"rates of keys are not kept", sim.Rates, []string{"S20"}, settings(func(ns *carillon.Namespace) { ns.RateLimits = nil })},
	{"rates of namespaces are not kept", sim.RatesOfACluster, []string{"S20"},
		settings(func(ns *carillon.Namespace) { ns.Quotas.Runs = carillon.Rate{} })},
	{"a rate lets one more begin at once", sim.Rates, []string{"S20"}, settings(func(ns *carillon.Namespace) {
		for k, r := range ns.RateLimits {
			r.Burst++
			ns.RateLimits[k] = r
		}
	})},
	{"what a rate holds back is lost", sim.Rates, []string{"L1", "S3"}, settings(func(ns *carillon.Namespace) {
		for k, r := range ns.RateLimits {
			r.Period = 24 * time.Hour
			ns.RateLimits[k] = r
		}
	})},
}

// settings plants a bug in what becomes of the settings of namespaces.
func settings(edit func(*carillon.Namespace)) func(*sim.Plan) sim.Mutant {
	return api(func(s sim.Scheduler) sim.Scheduler { return settler{s, edit} })
}

type settler struct {
	sim.Scheduler
	edit func(*carillon.Namespace)
}

// PutNamespace is for [sim.Scheduler].
func (s settler) PutNamespace(ctx context.Context, ns carillon.Namespace) (carillon.Namespace, error) {
	s.edit(&ns)
	return s.Scheduler.PutNamespace(ctx, ns)
}

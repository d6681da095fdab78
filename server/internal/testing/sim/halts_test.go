package sim_test

import (
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// TestPausedQueuesHandNothingOut, on a node that is killed meanwhile and among nodes that come and leave, and
// lose nothing by it.
func TestPausedQueuesHandNothingOut(t *testing.T) {
	for _, profile := range []sim.Profile{sim.Halts, sim.HaltsOfACluster} {
		t.Run(profile.Name, func(t *testing.T) {
			n := fewer(*seeds / 10)
			var shut, purged atomic.Int64
			eachSeed(t, n, func(t *testing.T, i uint64) {
				p := profile.Generate(i)
				h := live(t, &p, sim.Options{})
				if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
					t.Errorf("%s", v)
				}
				for k := range h.Faults {
					if !h.Faults[k].Shut.IsZero() {
						shut.Add(1)
					}
				}
				for k := range h.Final.Runs {
					if h.Final.Runs[k].Reason == "purged" {
						purged.Add(1)
					}
				}
			})
			t.Logf("%d pauses, %d runs purged", shut.Load(), purged.Load())
			if n >= 10 && (shut.Load() < int64(n) || purged.Load() == 0) {
				t.Errorf("%d pauses that were acknowledged, and %d runs purged, in %d seeds show nothing", shut.Load(),
					purged.Load(), n)
			}
		})
	}
}

// haltMutants are aimed at paused queues.
var haltMutants = []mutant{
	{"a paused queue hands out", sim.Halts, []string{"S18"}, unpaused},
	{"a paused queue hands out on a node of a cluster", sim.HaltsOfACluster, []string{"S18"}, unpaused},
	{"another queue is purged", sim.HaltsOfACluster, []string{"S12"}, func(*sim.Plan) sim.Mutant {
		return sim.Mutant{Wire: func(m proto.Message) {
			if p, ok := m.(*peerv1.PurgeInRequest); ok {
				p.Name = map[string]string{"red": "blue", "blue": "red"}[p.GetName()]
			}
		}}
	}},
}

func unpaused(*sim.Plan) sim.Mutant {
	return sim.Mutant{Dispatcher: func(d engine.Dispatcher) engine.Dispatcher { return unpausing{d} }}
}

// unpausing knows of no paused queues.
type unpausing struct{ engine.Dispatcher }

func (unpausing) SetPaused([]delivery.Queue) {}

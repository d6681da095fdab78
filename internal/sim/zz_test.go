package sim_test

import "testing"
import "github.com/carillonhq/carillon/internal/sim"
import "github.com/carillonhq/carillon/internal/checker"

func TestZZ(t *testing.T) {
	pr := weighted(chaos, []sim.FaultKind{sim.Kill}, sim.Weight{Kind: checker.Put, N: 20})
	pq := weighted(quiet, nil, sim.Weight{Kind: checker.Pause, N: 20}, sim.Weight{Kind: checker.Resume, N: 20})
	pe := weighted(chaos, []sim.FaultKind{sim.EndpointDown})
	pc := weighted(chaos, []sim.FaultKind{sim.Clock})
	pb := weighted(killing, nil, sim.Weight{Kind: checker.Backfill, N: 20})
	pd := weighted(chaos, nil, sim.Weight{Kind: checker.Redrive, N: 20})
	pp := weighted(chaos, []sim.FaultKind{sim.StreamCut}, sim.Weight{Kind: checker.Pause, N: 20}, sim.Weight{Kind: checker.Resume, N: 20})
	n := 0
	for k, q := range []sim.Profile{pr, pq, pe, pc, pb, pd, pp, sim.Quiet, sim.Clocks} {
		for s := uint64(1); s <= 120; s++ {
			p := q.Generate(s)
			h := live(t, &p, sim.Options{})
			if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
				t.Errorf("profile %d: %s", k, v)
				if n++; n > 25 { return }
			}
		}
	}
}

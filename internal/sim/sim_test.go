package sim_test

import (
	"flag"
	"testing"
	"testing/synctest"

	"github.com/carillonhq/carillon/internal/sim"
)

var (
	seeds = flag.Int("seeds", 25, "how many seeds TestSimulation lives through")
	seed  = flag.Uint64("seed", 0, "the one seed to live through; 0 = the first -seeds of them")
)

// live runs one seed in a bubble of its own, and judges it.
func live(t *testing.T, o sim.Options) *sim.Ledger {
	t.Helper()
	var l *sim.Ledger
	synctest.Test(t, func(t *testing.T) {
		var err error
		if l, err = sim.Run(o); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() {
		return l
	}
	for i, v := range sim.Check(l) {
		if i == 10 {
			t.Error("and more")
			break
		}
		t.Error(v)
	}
	if t.Failed() {
		t.Logf("replay: go test ./internal/sim -run 'TestSimulation$' -seed %d", o.Seed)
	}
	return l
}

// TestSimulation lives through seeds with every fault.
func TestSimulation(t *testing.T) {
	from, to := uint64(1), uint64(*seeds)
	if *seed != 0 {
		from, to = *seed, *seed
	}
	attempts, acked, kills := 0, 0, 0
	for s := from; s <= to && !t.Failed(); s++ {
		l := live(t, sim.Options{Seed: s})
		if l == nil {
			return
		}
		attempts += len(l.Attempts)
		for _, r := range l.Results {
			if r.Acked {
				acked++
			}
		}
		for _, f := range l.Faults {
			if f.Kind == "kill" {
				kills++
			}
		}
	}
	t.Logf("%d attempts, %d results acknowledged, %d kills", attempts, acked, kills)
	if *seed == 0 && !t.Failed() && (attempts < 100*int(to) || acked < 50*int(to) || kills < int(to)/2) {
		t.Error("too little happened for a verdict")
	}
}

// TestWithoutFaultsEveryRunIsDeliveredOnce is I9 at its sharpest.
func TestWithoutFaultsEveryRunIsDeliveredOnce(t *testing.T) {
	for s := uint64(1); s <= 5; s++ {
		l := live(t, sim.Options{Seed: s, Quiet: true})
		if l == nil {
			return
		}
		if len(l.Attempts) != 18 {
			t.Errorf("seed %d: %d attempts of 18 one-shots", s, len(l.Attempts))
		}
		for _, a := range l.Attempts {
			if a.Number != 1 {
				t.Errorf("seed %d: %+v", s, a)
			}
		}
	}
}

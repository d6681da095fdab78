package partition_test

import (
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestWhoWaitsForAConsumerHoldsNoPermit: a run that has one permit and waits for another keeps it, until it is
// let go in a round without a free slot, or parked, or its job is deleted, or the partition is handed over.
func TestWhoWaitsForAConsumerHoldsNoPermit(t *testing.T) {
	last := keyOf("dapr/actor/cat/1/1")
	for name, leave := range map[string]func(r *rig, b *bank){
		"no slot":     func(r *rig, b *bank) { r.hand(b, 0) },
		"parked":      func(r *rig, _ *bank) { r.m.Window.StageAside(r.now, 9) },
		"handed over": func(r *rig, _ *bank) { r.m.Attempts.HandOver(r.now) },
		"paused": func(r *rig, _ *bank) {
			if _, err := r.m.Jobs.SetPaused(r.now, last, carillon.PauseOptions{Paused: true}); err != nil {
				r.t.Fatal(err)
			}
		},
		"deleted": func(r *rig, _ *bank) {
			if _, err := r.m.Jobs.Delete(r.now, last); err != nil {
				r.t.Fatal(err)
			}
		},
		"nobody serves": func(r *rig, _ *bank) {
			for _, q := range r.m.Permits.Kept() {
				r.m.Permits.ForgoKeptIn(q)
			}
		},
		"too many are out": func(r *rig, _ *bank) {
			r.m.Permits.ForgoKeptOf([]delivery.Limit{catLimit, narrowLimit})
		},
		"the limits have changed": func(r *rig, _ *bank) { r.m.Permits.ForgoKept(carillon.DefaultNamespace) },
	} {
		t.Run(name, func(t *testing.T) {
			r, b := catRig(t, 2, 2, 1)
			ds := r.hand(b, 9)
			if len(ds) != 1 || b.inForce[narrowLimit] != 2 || b.inForce[catLimit] != 1 {
				t.Fatalf("%d in force, permits %v", len(ds), b.inForce)
			}
			if name == "no slot" {
				r.succeed(ds[0])
				r.flush()
			}
			before := b.inForce[catLimit]
			if leave(r, b); b.inForce[narrowLimit] != before || b.inForce[catLimit] != before {
				t.Errorf("permits %v, and %d in force", b.inForce, before)
			}
		})
	}
}

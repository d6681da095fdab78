package chaos_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/deliveries"
)

// sidecarCycles is how often something goes wrong in a short campaign with sidecars.
const sidecarCycles = 3

// TestSidecars works over a node in the place of Dapr's scheduler, which is alone and keeps its jobs in a
// folder, and its sidecars; see the package's comment.
func TestSidecars(t *testing.T) {
	t.Parallel()
	besetSidecars(t, chaos.SidecarOptions{Binary: carillonBinary(t), Nodes: 1,
		Folder: filepath.Join(t.TempDir(), "data"), Cycles: often(sidecarCycles)})
}

// TestSidecarsPostgres does so with three nodes on PostgreSQL.
func TestSidecarsPostgres(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	besetSidecars(t, chaos.SidecarOptions{Binary: binary, Nodes: *nodes, Store: chaos.PostgresBackend(t),
		Cycles: often(sidecarCycles)})
}

// besetSidecars does a campaign and has it judged.
func besetSidecars(t *testing.T, o chaos.SidecarOptions) {
	t.Helper()
	o.Seed, o.Log = *seed, t.Logf
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	t.Logf("seed %d; again: go test ./server/internal/testing/chaos -run '^%s$' -v -seed %d -cycles %d", o.Seed,
		t.Name(), o.Seed, o.Cycles)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(o.Cycles)*30*time.Second+4*time.Minute)
	defer cancel()
	h, err := chaos.RunSidecars(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	acked := 0
	for _, order := range h.Orders {
		if order.Acked {
			acked++
		}
	}
	t.Logf("%d of %d orders were acknowledged, %d runs came to sidecars, %d are in the history", acked,
		len(h.Orders), len(h.Seen), len(h.Runs))
	if acked < 10*o.Cycles || len(h.Seen) < 10*o.Cycles {
		t.Error("too little happened")
	}
	for _, v := range deliveries.AuditTriggers(h) {
		t.Error(v)
	}
}

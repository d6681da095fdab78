package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store/memory"
)

// TestALimitHoldsForPutsEverywhere: once a limit has been set no node warns that the key has none, even if it
// was not announced.
func TestALimitHoldsForPutsEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 6}), 3, nil)
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		owner := f.nodes[identity.PartitionOf(carillon.Key{Namespace: "default"}, 6)%3]
		put := func(name string, want ...string) {
			for i := range 18 {
				j := carillon.Job{Name: fmt.Sprint(name, i), ConcurrencyKey: "k", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
				put, err := route(t.Context(), f, func(n *node) (carillon.PutResult, error) { return n.PutJob(t.Context(), j) })
				if err != nil {
					t.Fatal(err)
				}
				wantWarnings(t, name, put.Warnings, want...)
			}
		}
		put("before", "concurrency_key: ")
		if _, err := owner.PutNamespace(t.Context(), carillon.Namespace{Name: "default", ConcurrencyLimits: map[string]int{"k": 1}}); err != nil {
			t.Fatal(err)
		}
		put("limited")
		f.stop()
	})
}

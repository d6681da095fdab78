package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAnAttemptInForceIsConfirmed: when a heartbeat asks, by the owner of its run, whichever node that is.
// For an attempt that is over the answer is that it is stale.
func TestAnAttemptInForceIsConfirmed(t *testing.T) {
	for owner, where := range []string{"by its node", "by another node"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
				f.deal(func(int) int { return 0 })
				f.settled()
				old := f.nodes[0].consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
				j := carillon.Job{Name: "a", Target: carillon.WorkerQueue("q"), Lease: 10 * time.Second}
				if _, err := f.nodes[0].PutJob(context.Background(), j); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				run := old.got()[0]
				f.deal(func(int) int { return owner })
				f.settled()
				ask := func(confirm bool) {
					t.Helper()
					beat := carillon.Heartbeat{Token: run.Token, RunID: run.ID, Confirm: confirm}
					if err := old.Send(context.Background(),
						carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{beat}}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					synctest.Wait()
				}
				ask(false)
				if old.heard().confirmed != 0 {
					t.Error("what nobody asked about was confirmed")
				}
				ask(true)
				if old.heard().confirmed != 1 || old.heard().stale != 0 {
					t.Errorf("in force: %d confirmed, %d stale", old.heard().confirmed, old.heard().stale)
				}
				time.Sleep(8 * time.Second) // the question has extended the lease
				ask(true)
				if h := old.heard(); h.confirmed != 2 || h.stale != 0 {
					t.Errorf("extended: %d confirmed, %d stale", h.confirmed, h.stale)
				}
				time.Sleep(20 * time.Second)
				ask(true)
				if h := old.heard(); h.confirmed != 2 || h.stale != 1 {
					t.Errorf("over: %d confirmed, %d stale", h.confirmed, h.stale)
				}
				f.stop()
			})
		})
	}
}

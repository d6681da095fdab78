package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestARedriveIsHeldToQuotas: the job of a dead run comes back only if there is room for it and its data, and
// it is counted until it is gone again.
func TestARedriveIsHeldToQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		var stays atomic.Bool
		n.consumeIn(n.hub, "shop", "dies", 10, func(carillon.Run) *carillon.Result {
			if stays.Load() {
				return nil
			}
			return &carillon.Result{Outcome: carillon.OutcomeFailure, Permanent: true}
		})
		dies := carillon.Job{Namespace: "shop", Name: "dies", Due: carillon.In(0),
			Target: carillon.WorkerQueue("dies"), Data: carillon.Bytes(make([]byte, 600), "")}
		if _, err := n.PutJob(ctx, dies); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		dead, err := n.ListRuns(ctx, carillon.RunQuery{Namespace: "shop",
			Statuses: []carillon.RunStatus{carillon.RunDead}})
		if err != nil || len(dead.Runs) != 1 {
			t.Fatalf("%+v, %v", dead, err)
		}
		big := shopJob(1)
		big.Data = carillon.Bytes(make([]byte, 500), "")
		if _, err := n.PutJob(ctx, big); err != nil {
			t.Fatal(err)
		}
		putQuotas(t, n, carillon.Quotas{PayloadBytes: 1000})
		redrive := func(field, words string) {
			t.Helper()
			_, err := n.RedriveRun(ctx, "shop", dead.Runs[0].ID)
			over(t, err, field, words)
			done, err := n.RedriveRuns(ctx, "shop", "")
			over(t, err, field, words)
			if done != 0 {
				t.Errorf("%d runs were redriven", done)
			}
		}
		redrive("quotas.payload_bytes", `namespace "shop" has 500 of 1,000 bytes of data, and 600 more`)
		putQuotas(t, n, carillon.Quotas{Jobs: 1})
		redrive("quotas.jobs", `namespace "shop" has 1 of 1 jobs`)
		putQuotas(t, n, carillon.Quotas{Jobs: 2, PayloadBytes: 1100})
		has := func(want carillon.Usage) {
			t.Helper()
			ns, err := n.GetNamespace(ctx, "shop")
			if err != nil || ns.Used == nil || *ns.Used != want || shopHas(t, s) != want {
				t.Errorf("got %+v, %v, want %+v; the store has %+v", ns.Used, err, want, shopHas(t, s))
			}
		}
		has(carillon.Usage{Jobs: 1, PayloadBytes: 500})
		stays.Store(true)
		if _, err := n.RedriveRun(ctx, "shop", dead.Runs[0].ID); err != nil {
			t.Fatal(err)
		}
		has(carillon.Usage{Jobs: 2, PayloadBytes: 1100})
		_, err = n.PutJob(ctx, shopJob(2))
		over(t, err, "quotas.jobs", `namespace "shop" has 2 of 2 jobs`)
		if _, err := n.DeleteJob(ctx, dies.Key()); err != nil {
			t.Fatal(err)
		}
		has(carillon.Usage{Jobs: 1, PayloadBytes: 500})
		n.stop()
	})
}

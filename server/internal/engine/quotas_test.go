package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// shopJob is a one-shot of the namespace shop that does not run yet.
func shopJob(n int) carillon.Job {
	return carillon.Job{Namespace: "shop", Name: fmt.Sprint("j", n), Due: carillon.In(24 * time.Hour),
		Target: carillon.WorkerQueue("q")}
}

// shopHas returns what the store has of the namespace shop.
func shopHas(t testing.TB, s store.Store) (u carillon.Usage) {
	t.Helper()
	for p := range s.Meta().Partitions {
		shard, err := s.Shard(p, store.Term{})
		if err != nil {
			t.Fatal(err)
		}
		records, err := shard.List(context.Background(), store.ListQuery{Namespace: "shop", Limit: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		u.Jobs += int64(len(records))
		for i := range records {
			u.PayloadBytes += records[i].State.Payload
		}
	}
	return u
}

// over checks that an error refuses something for a quota, in so many words.
func over(t *testing.T, err error, field, words string) {
	t.Helper()
	var e *carillon.Error
	if !errors.As(err, &e) || e.Kind != carillon.ResourceExhausted || e.Field != field || e.Unknown ||
		!strings.Contains(e.Message, words) {
		t.Errorf("got %v, want %s: %s", err, field, words)
	}
}

func putQuotas(t *testing.T, n carillon.Namespaces, q carillon.Quotas) {
	t.Helper()
	old, err := n.GetNamespace(context.Background(), "shop")
	if err == nil {
		old.Quotas = q
		_, err = n.PutNamespace(context.Background(), old)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAQuotaOfJobs: one more is refused, whichever way it comes; what exists can be changed and deleted, and
// what is deleted makes room. It holds after a restart.
func TestAQuotaOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 8})
		n := start(t, s)
		for i := range 3 { // there before there is a quota
			if _, err := n.PutJob(ctx, shopJob(i)); err != nil {
				t.Fatal(err)
			}
		}
		putQuotas(t, n, carillon.Quotas{Jobs: 5})
		full := func() {
			t.Helper()
			_, err := n.PutJob(ctx, shopJob(9))
			over(t, err, "quotas.jobs", `namespace "shop" has 5 of 5 jobs`)
			before, err := n.Ask(ctx, store.PartitionOf(carillon.Key{Namespace: "shop", Name: "j9"}, 8),
				message.Command{Request: "r", Key: carillon.Key{Namespace: "shop", Name: "j9"}, Job: new(shopJob(9))})
			over(t, err, "quotas.jobs", `namespace "shop" has 5 of 5 jobs`)
			if before != false {
				t.Error("the command was done before")
			}
			_, err = n.PutJobs(ctx, []carillon.Job{shopJob(0), shopJob(9)})
			over(t, err, "quotas.jobs", `namespace "shop" has 5 of 5 jobs`)
			changed := shopJob(1)
			changed.Note = fmt.Sprint("changed at ", time.Now())
			if _, err := n.PutJob(ctx, changed); err != nil {
				t.Error(err)
			}
			if _, err := n.PutJob(ctx, changed, carillon.Replace()); err != nil {
				t.Error(err)
			}
		}
		_, err := n.PutJobs(ctx, []carillon.Job{shopJob(3), shopJob(4), shopJob(5)})
		over(t, err, "quotas.jobs", `namespace "shop" has 3 of 5 jobs`)
		if _, err := n.PutJobs(ctx, []carillon.Job{shopJob(0), shopJob(3), shopJob(4)}); err != nil {
			t.Fatal(err)
		}
		full()
		if _, err := n.DeleteJob(ctx, carillon.Key{Namespace: "shop", Name: "j0"}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.PutJob(ctx, shopJob(7)); err != nil { // in another partition
			t.Error(err)
		}
		full()
		n.stop()
		n = start(t, s)
		full()
		if ns, err := n.GetNamespace(ctx, "shop"); err != nil || ns.Used == nil || ns.Used.Jobs != 5 {
			t.Errorf("got %+v, %v", ns.Used, err)
		}
		putQuotas(t, n, carillon.Quotas{})
		if _, err := n.PutJob(ctx, shopJob(9)); err != nil {
			t.Errorf("the quota was lifted: %v", err)
		}
		putQuotas(t, n, carillon.Quotas{Jobs: 2})
		_, err = n.PutJob(ctx, shopJob(10))
		over(t, err, "quotas.jobs", `namespace "shop" has 6 of 2 jobs`)
		n.stop()
	})
}

// TestTheRateHoldsInACluster: of changes at three nodes, in any time no more are made than the burst and what
// the rate brings in that time and 100 ms; and not many fewer. Who is refused is told when to come again.
func TestTheRateHoldsInACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst, callers = 50, 20, 12
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 8})
		f := startFleet(t, s, 3, func(_ int, c *engine.Config) { c.LeaseTTL = 4 * time.Second })
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		putShopQuotas(t, f, carillon.Quotas{Puts: carillon.Rate{Count: rate, Burst: burst}})
		time.Sleep(6 * time.Second) // until all nodes know
		var mu sync.Mutex
		var made []time.Duration
		began := time.Now()
		var calls sync.WaitGroup
		for c := range callers {
			calls.Go(func() {
				for i := 0; time.Since(began) < 10*time.Second; i++ {
					_, err := routePut(ctx, f, shopJob(1000*c+i))
					var e *carillon.Error
					switch {
					case err == nil:
						mu.Lock()
						made = append(made, time.Since(began))
						mu.Unlock()
					case errors.As(err, &e) && e.Field == "quotas.puts" && e.RetryAfter > 0:
						time.Sleep(e.RetryAfter)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		calls.Wait()
		for i := range made {
			for k := i; k < len(made); k++ {
				within := (made[k] - made[i] + 100*time.Millisecond).Seconds()
				if n := k - i + 1; float64(n) > burst+rate*within+1 {
					t.Fatalf("%d changes within %v", n, made[k]-made[i])
				}
			}
		}
		if len(made) < 10*rate*8/10 {
			t.Errorf("%d changes were made in 10 s", len(made))
		}
		f.stop()
	})
}

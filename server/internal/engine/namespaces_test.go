package engine_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// retries is the policy of scenario S19: three retries from 200 ms on, with 500 ms of jitter, which take
// 2,900 ms at worst.
func retries() carillon.FailurePolicy {
	p := carillon.Exponential(200 * time.Millisecond).WithMaxRetries(3)
	p.Factor, p.Jitter = 2, 500*time.Millisecond
	return p
}

func TestAStrictNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		job := func(ns, every string) carillon.Job {
			return carillon.Job{Namespace: ns, Name: "a", Schedule: every, Target: carillon.WorkerQueue("q"),
				FailurePolicy: retries()}
		}
		put, err := n.PutJob(ctx, job("lax", "@every 2s"))
		if err != nil || len(put.Warnings) != 1 {
			t.Fatalf("%+v %v", put, err)
		}
		for _, ns := range []string{"strict", "lax"} {
			if _, err := n.PutNamespace(ctx, carillon.Namespace{Name: ns, Strict: true}); err != nil {
				t.Fatal(err)
			}
		}
		n.stop()
		n = start(t, s) // it holds after a restart
		refused := func(err error, window, interval string) {
			t.Helper()
			var e *carillon.Error
			if !errors.As(err, &e) || e.Kind != carillon.InvalidArgument ||
				!strings.HasSuffix(e.Field, "failure_policy") ||
				!strings.Contains(e.Message, window) || !strings.Contains(e.Message, interval) {
				t.Errorf("got %v", err)
			}
		}
		_, err = n.PutJob(ctx, job("strict", "@every 2s"))
		refused(err, "2.9s", "2s")
		_, err = n.PutJob(ctx, job("strict", "@every 2900ms"))
		refused(err, "can take 2.9s", "interval of 2.9s")
		_, err = n.PutJobs(ctx, []carillon.Job{job("other", "@every 2s"), job("strict", "@every 2s")})
		refused(err, "2.9s", "2s")
		if _, err := n.GetJob(ctx, carillon.Key{Namespace: "other",
			Name: "a"}); !errors.Is(err, carillon.NotFound) {
			t.Errorf("a part of a refused batch was stored: %v", err)
		}
		if _, err := n.PutJob(ctx, job("strict", "@every 3s")); err != nil {
			t.Error(err)
		}
		if _, err := n.PutJob(ctx, job("other", "@every 2s")); err != nil {
			t.Error(err)
		}
		oneShot := job("strict", "")
		oneShot.Name = "b"
		if _, err := n.PutJob(ctx, oneShot); err != nil {
			t.Error(err)
		}
		_, err = n.PatchJob(ctx, carillon.Key{Namespace: "strict", Name: "a"},
			carillon.Patch{Fields: []string{"schedule"}, Job: carillon.Job{Schedule: "@every 2s"}})
		refused(err, "2.9s", "2s")
		n.stop()
	})
}

// TestSettingsHaveGenerations: each change adds one, a put without a change adds none, and a put for a
// generation that is not the newest is refused. Counting goes on over a restart, and over settings that were
// removed.
func TestSettingsHaveGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 4})
		n := start(t, s)
		limited, other := map[string]int{"k": 3}, map[string]int{"k": 4}
		for i, c := range []struct {
			put  carillon.Namespace
			want uint64 // 0: refused
		}{
			{carillon.Namespace{}, 1},
			{carillon.Namespace{ConcurrencyLimits: limited, Generation: 2}, 0},
			{carillon.Namespace{ConcurrencyLimits: limited, Generation: 1}, 2},
			{carillon.Namespace{ConcurrencyLimits: limited, Generation: 1}, 0},
			{carillon.Namespace{ConcurrencyLimits: limited}, 2},
			{carillon.Namespace{}, 0}, // it would free what is limited
			{carillon.Namespace{Strict: true}, 0},
			{carillon.Namespace{ConcurrencyLimits: other}, 3},
			{carillon.Namespace{ConcurrencyLimits: other, Strict: true}, 4},
			{carillon.Namespace{Generation: 4}, 5},
			{carillon.Namespace{ConcurrencyLimits: limited, Generation: 1}, 0},
			{carillon.Namespace{ConcurrencyLimits: limited}, 6},
		} {
			before, err := n.GetNamespace(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			c.put.Name = "a"
			after := c.put
			got, err := n.PutNamespace(ctx, c.put)
			if c.want == 0 {
				if after = before; !errors.Is(err, carillon.FailedPrecondition) {
					t.Errorf("%d: %+v, %v", i, got, err)
				}
			} else if after.Generation = c.want; err != nil || !reflect.DeepEqual(got, after) {
				t.Errorf("%d: %+v, %v; want %+v", i, got, err, after)
			}
			n.stop()
			n = start(t, s)
			if is, err := n.GetNamespace(ctx, "a"); err != nil || is.Generation != after.Generation ||
				is.Strict != after.Strict ||
				!maps.Equal(is.ConcurrencyLimits, after.ConcurrencyLimits) {
				t.Errorf("%d: in force is %+v, %v; want %+v", i, is, err, after)
			}
		}
		n.stop()
	})
}

// TestOneOfManyPutsOfSettingsWins: of several puts for the same generation one succeeds, even while the store
// has not answered yet.
func TestOneOfManyPutsOfSettingsWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 4})}
		n := start(t, f)
		f.fail(func(apply func() error) error { time.Sleep(time.Second); return apply() })
		const operators = 5
		var taken atomic.Int64
		var all sync.WaitGroup
		for round := range 3 {
			for i := range operators {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 300 * time.Millisecond)
					limits := map[string]int{"k": 10*round + i}
					_, err := n.PutNamespace(ctx,
						carillon.Namespace{Name: "a", ConcurrencyLimits: limits, Generation: uint64(round + 1)})
					switch {
					case err == nil:
						taken.Add(1)
					case !errors.Is(err, carillon.FailedPrecondition):
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := taken.Swap(0); got != 1 {
				t.Errorf("round %d: %d puts over one generation were taken", round, got)
			}
		}
		f.fail(nil)
		n.stop()
	})
}

func TestSettingsAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 4})}
		n := start(t, f)
		want := carillon.Namespace{Name: "a", ConcurrencyLimits: map[string]int{"k": 3}}
		if _, err := n.PutNamespace(ctx, want); err != nil {
			t.Fatal(err)
		}
		f.fail(func(func() error) error { return errors.New("no") })
		if _, err := n.PutNamespace(ctx,
			carillon.Namespace{Name: "a", Strict: true,
				ConcurrencyLimits: want.ConcurrencyLimits}); !errors.Is(err, carillon.Unavailable) {
			t.Fatalf("acknowledged: %v", err)
		}
		f.fail(nil)
		time.Sleep(2 * time.Second)
		if got, err := n.GetNamespace(ctx, "a"); err != nil || got.Strict || got.ConcurrencyLimits["k"] != 3 {
			t.Errorf("in force: %+v %v", got, err)
		}
		f.fail(func(apply func() error) error { return errors.Join(apply(), store.ErrUnknown) })
		if _, err := n.PutNamespace(ctx, carillon.Namespace{Name: "a",
			Generation: 2}); !errors.Is(err, carillon.Unavailable) {
			t.Fatalf("acknowledged: %v", err)
		}
		f.fail(nil)
		time.Sleep(2 * time.Second)
		if got, err := n.GetNamespace(ctx, "a"); err != nil || len(got.ConcurrencyLimits) != 0 {
			t.Errorf("what is in the store is not in force: %+v %v", got, err)
		}
		if _, err := n.GetNamespace(ctx, "A B"); !errors.Is(err, carillon.InvalidArgument) {
			t.Error(err)
		}
		if _, err := n.PutNamespace(ctx,
			carillon.Namespace{ConcurrencyLimits: map[string]int{"k": -1}}); !errors.Is(err, carillon.InvalidArgument) {
			t.Error(err)
		}
		n.stop()
	})
}

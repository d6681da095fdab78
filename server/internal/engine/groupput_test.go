package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestABatchInOneLaneIsOneWrite: and leaves nothing else behind.
func TestABatchInOneLaneIsOneWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, writes := counting(5)
		n := start(t, f)
		began := writes()
		puts, err := n.PutJobs(context.Background(), batchJobs())
		if err != nil || len(puts) != 7 || writes()-began != 1 {
			t.Errorf("%d puts, %d writes, %v", len(puts), writes()-began, err)
		}
		for i, j := range batchJobs() {
			if puts[i].Job.Name != j.Name || !puts[i].Created {
				t.Errorf("put %d: %+v", i, puts[i])
			}
		}
		n.stop()
		wantNoSmall(t, f.Store, 'i', 'a')
	})
}

// TestBatchesInOneLaneShareAWrite: if they come while a write is in flight, up to a bound.
func TestBatchesInOneLaneShareAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, writes := counting(5)
		n := start(t, f)
		began := writes()
		var all sync.WaitGroup
		put := func(batch, jobs int) {
			all.Go(func() {
				list := make([]carillon.Job, jobs)
				for i := range list {
					list[i] = carillon.Job{Name: fmt.Sprint(batch, "/", i), Due: carillon.In(time.Hour),
						Target: carillon.WorkerQueue("q")}
				}
				if _, err := n.PutJobs(context.Background(), list); err != nil {
					t.Error(err)
				}
			})
		}
		put(0, 10)
		time.Sleep(time.Millisecond) // it is in flight
		for batch := range 7 {
			put(batch+1, 400)
		}
		all.Wait()
		if got := writes() - began; got != 4 { // three batches reach the bound
			t.Errorf("%d writes", got)
		}
		n.stop()
	})
}

// TestABatchThatCannotBeOneWriteIsStoredWhole: one of its jobs is deleted in the batch that is filling.
func TestABatchThatCannotBeOneWriteIsStoredWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f, writes := counting(5)
		n := start(t, f)
		jobs := batchJobs()[:6]
		if _, err := n.PutJobs(ctx, jobs); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() { // keeps the store busy, so that the delete waits
			if _, err := n.PutJob(ctx, carillon.Job{Name: "other", Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue("q")}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Millisecond)
		all.Go(func() {
			if _, err := n.DeleteJob(ctx, carillon.Key{Namespace: "default", Name: jobs[3].Name}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Millisecond)
		before := writes()
		puts, err := n.PutJobs(ctx, jobs)
		if err != nil || !puts[3].Created || puts[2].Created {
			t.Errorf("%+v %v", puts, err)
		}
		all.Wait()
		time.Sleep(5 * time.Minute)
		if got := writes() - before; got < 3 { // with the delete the intent, and then the jobs
			t.Errorf("%d writes: it was not apart", got)
		}
		n.stop()
		wantNoSmall(t, f.Store, 'i', 'a')
	})
}

// TestABatchThatFailsInOneLaneStoresNothing: in any partition.
func TestABatchThatFailsInOneLaneStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			fault   error
			unknown bool
		}{
			"refused": {errors.New("disk full"), false},
			"lost":    {fmt.Errorf("%w: lost", store.ErrUnknown), true},
		} {
			f := &faulty{Store: memory.New(memory.Options{Partitions: 5})}
			n := start(t, f)
			f.fail(func(func() error) error { return c.fault })
			_, err := n.PutJobs(context.Background(), batchJobs())
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable ||
				e.Unknown != c.unknown {
				t.Errorf("%s: %v", name, err)
			}
			f.fail(nil)
			time.Sleep(10 * time.Second)
			if page, err := n.ListJobs(context.Background(), carillon.JobQuery{}); err != nil || len(page.Jobs) > 0 {
				t.Errorf("%s: stored: %+v %v", name, page, err)
			}
			n.stop()
		}
	})
}

// TestABatchWaitsForPartitionsWithoutATerm: it is stored when they have one.
func TestABatchWaitsForPartitionsWithoutATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 5})}
		n := start(t, &slowLandlord{faulty: f})
		f.fail(func(func() error) error { return errors.New("no") })
		if errs := putAll(n, 1); errs[0] == nil {
			t.Error("stored")
		}
		f.fail(nil)
		if _, err := n.PutJobs(context.Background(), batchJobs()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute) // for what is left of the intents
		n.stop()
		wantNoSmall(t, f.Store, 'i', 'a')
	})
}

package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestABatchIsWholeWhoeverCannotCome: a batch that was about to be sent is stored as a whole or not at all,
// even if the leases run out while the records of the next batch are being read.
func TestABatchIsWholeWhoeverCannotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		l := &line{Store: memory.New(memory.Options{Partitions: 2})}
		n := start(t, grouped{l})
		names := func(suffix string) (jobs []carillon.Job) { // one of each partition
			for p := range 2 {
				name := suffix
				for store.PartitionOf(carillon.Key{Namespace: "default", Name: name}, 2) != p {
					name += suffix
				}
				jobs = append(jobs, carillon.Job{Name: name, Due: carillon.In(time.Hour),
					Target: carillon.WorkerQueue("q")})
			}
			return jobs
		}
		first, second := names("a"), names("b")
		var all sync.WaitGroup
		put := func(jobs []carillon.Job) <-chan error {
			outcome := make(chan error, 1)
			all.Go(func() {
				_, err := n.PutJobs(ctx, jobs)
				outcome <- err
			})
			time.Sleep(time.Millisecond)
			return outcome
		}
		l.set(func(what string, do func() error) error {
			if what == "apply" {
				time.Sleep(time.Second)
			}
			return do()
		})
		put(names("c")) // keeps the store busy
		l.set(func(what string, do func() error) error {
			switch what {
			case "read " + second[0].Name:
				time.Sleep(20 * time.Second)
			case "renew":
				return errors.New("not now")
			}
			return do()
		})
		answer := put(first)
		put(second)
		time.Sleep(24 * time.Second)
		stored := 0
		for _, j := range first {
			shard, err := l.Store.Shard(store.PartitionOf(carillon.Key{Namespace: "default", Name: j.Name},
				2), store.Term{})
			if err != nil {
				t.Fatal(err)
			}
			records, err := shard.Read(ctx, []store.Ref{{Key: carillon.Key{Namespace: "default", Name: j.Name}}})
			if err != nil {
				t.Fatal(err)
			}
			if records[0].Exists {
				stored++
			}
		}
		told := <-answer
		e, _ := errors.AsType[*carillon.Error](told)
		if stored == 1 || stored == 2 && e != nil && !e.Unknown || stored == 0 && e == nil {
			t.Errorf("%d of 2 jobs are stored, and the caller was told: %v", stored, told)
		}
		l.set(nil)
		all.Wait()
		n.stop()
	})
}

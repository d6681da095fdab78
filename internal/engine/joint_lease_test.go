package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// sleepy is a store that takes longer to read a job than leases last, and does not renew them any more, once it is tired.
type sleepy struct {
	*faulty
	slow  carillon.Key
	tired atomic.Bool
}

type sleepyShard struct {
	store.Shard
	s *sleepy
}

type sleepyLeaser struct {
	store.Leaser
	s *sleepy
}

func (s *sleepy) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := s.faulty.Shard(p, term)
	return sleepyShard{shard, s}, err
}

func (s *sleepy) ApplyGroup(ctx context.Context, writes []store.Write) error {
	return s.faulty.ApplyGroup(ctx, under(writes, func(s sleepyShard) store.Shard { return s.Shard }))
}

func (s sleepyShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	if s.s.tired.Load() && slices.Contains(refs, store.Ref{Key: s.s.slow}) {
		time.Sleep(20 * time.Second)
	}
	return s.Shard.Read(ctx, refs)
}

func (s *sleepy) Leaser() store.Leaser { return sleepyLeaser{s.faulty.Leaser(), s} }

func (l sleepyLeaser) Renew(ctx context.Context, node string, held []store.Holding, ttl time.Duration) ([]store.Holding, error) {
	if l.s.tired.Load() {
		return nil, errors.New("not now")
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

// TestABatchIsWholeWhoeverCannotCome: a batch that was about to leave is stored whole or not at all, also if the leases run out while
// what the next one needs is being read.
func TestABatchIsWholeWhoeverCannotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f, _ := counting(2)
		s := &sleepy{faulty: f}
		n := start(t, s)
		names := func(suffix string) (jobs []carillon.Job) { // one of each partition
			for p := range 2 {
				name := suffix
				for carillon.PartitionOf(carillon.Key{Namespace: "default", Name: name}, 2) != p {
					name += suffix
				}
				jobs = append(jobs, carillon.Job{Name: name, Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")})
			}
			return jobs
		}
		first, second := names("a"), names("b")
		s.slow = carillon.Key{Namespace: "default", Name: second[0].Name}
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
		put(names("c")) // keeps the store busy for a second
		f.fail(nil)     // nor is it from now on
		s.tired.Store(true)
		answer := put(first)
		put(second)
		time.Sleep(24 * time.Second)
		stored := 0
		for _, j := range first {
			shard, err := f.Store.Shard(carillon.PartitionOf(carillon.Key{Namespace: "default", Name: j.Name}, 2), store.Term{})
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
		s.tired.Store(false)
		all.Wait()
		n.stop()
	})
}

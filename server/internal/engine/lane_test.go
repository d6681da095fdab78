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
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// under is the part of grouping that a store which wraps another passes on.
func under[S store.Shard](writes []store.Write, shard func(S) store.Shard) []store.Write {
	below := make([]store.Write, len(writes))
	for i, w := range writes {
		below[i] = store.Write{Shard: shard(w.Shard.(S)), Batch: w.Batch}
	}
	return below
}

// counting is a store that takes a second for each write and counts writes.
func counting(partitions int) (f *faulty, writes func() int) {
	f = &faulty{Store: memory.New(memory.Options{Partitions: partitions})}
	var mu sync.Mutex
	n := 0
	f.fail(func(apply func() error) error {
		mu.Lock()
		n++
		mu.Unlock()
		time.Sleep(time.Second)
		return apply()
	})
	return f, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// putAll puts many jobs at once, each by a caller of its own.
func putAll(n *node, jobs int) []error {
	errs := make([]error, jobs)
	var all sync.WaitGroup
	for i := range jobs {
		all.Go(func() {
			_, errs[i] = n.PutJob(context.Background(),
				carillon.Job{Name: fmt.Sprint(i), Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")})
		})
	}
	all.Wait()
	return errs
}

// TestALaneMakesItsPartitionsDurableTogether: although each changes by itself.
func TestALaneMakesItsPartitionsDurableTogether(t *testing.T) {
	// a group that has left when the last job comes in, and one more
	for lanes, most := range map[int]int{0: 2, 1: 2, 3: 6, 16: 32} {
		synctest.Test(t, func(t *testing.T) {
			f, writes := counting(16)
			n := startWith(t, engine.Config{Store: f, Lanes: lanes})
			began := writes()
			if err := errors.Join(putAll(n, 200)...); err != nil {
				t.Error(err)
			}
			if got := writes() - began; got > most {
				t.Errorf("%d lanes: %d writes", lanes, got)
			}
			n.stop()
		})
	}
}

// TestAFailedGroupFailsAllOfIt: and each partition is owned again.
func TestAFailedGroupFailsAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 8})}
		n := start(t, f)
		f.fail(func(func() error) error {
			time.Sleep(time.Millisecond)
			return fmt.Errorf("%w: lost", store.ErrUnknown)
		})
		for i, err := range putAll(n, 50) {
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable {
				t.Errorf("put %d: %v", i, err)
			}
		}
		f.fail(nil)
		time.Sleep(time.Second)
		if err := n.Ready(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(putAll(n, 50)...); err != nil {
			t.Error(err)
		}
		n.stop()
	})
}

// slowLandlord is a store that takes long to answer any claim after the first.
type slowLandlord struct {
	*faulty
	first sync.Once
}

type slowLeaser struct {
	store.Leaser
	l *slowLandlord
}

func (l *slowLandlord) Leaser() store.Leaser { return slowLeaser{l.faulty.Leaser(), l} }

func (l slowLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	slow := true
	l.l.first.Do(func() { slow = false })
	if slow {
		time.Sleep(10 * time.Second)
	}
	return l.Leaser.Claim(ctx, node, ps, ttl)
}

// TestAClaimDoesNotHoldUpTheLane: while it waits for the store.
func TestAClaimDoesNotHoldUpTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 2})}
		n := startWith(t, engine.Config{Store: &slowLandlord{faulty: f}, Lanes: 1})
		names := [2]string{} // by partition
		for i := 0; names[0] == "" || names[1] == ""; i++ {
			k := carillon.Key{Namespace: "default", Name: fmt.Sprint(i)}
			names[store.PartitionOf(k, 2)] = k.Name
		}
		put := func(p int) error {
			_, err := n.PutJob(context.Background(),
				carillon.Job{Name: names[p], Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")})
			return err
		}
		f.fail(func(func() error) error { return errors.New("no") })
		if err := put(0); !errors.Is(err, carillon.Unavailable) {
			t.Fatal(err)
		}
		f.fail(nil)
		began := time.Now()
		if err := put(1); err != nil || time.Since(began) > 0 {
			t.Errorf("the other partition: %v after %v", err, time.Since(began))
		}
		// it has waited for the claim
		if err := put(0); err != nil || time.Since(began).Round(time.Second) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		n.stop()
	})
}

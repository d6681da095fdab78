package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// stalling is a store whose writes may take two seconds.
type stalling struct {
	store.Store
	stalls atomic.Bool
}

func (s *stalling) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := s.Store.Shard(p, term)
	return stallingShard{shard, s}, err
}

type stallingShard struct {
	store.Shard
	in *stalling
}

func (s stallingShard) Apply(ctx context.Context, b *store.Batch) error {
	if s.in.stalls.Load() {
		time.Sleep(2 * time.Second)
	}
	return s.Shard.Apply(ctx, b)
}

// puts are commands that put jobs, each once.
func puts(of string, n int) (group message.Commands) {
	for i := range n {
		name := fmt.Sprint(of, i)
		group.Commands = append(group.Commands, message.Command{Request: "of " + name, KeepFor: time.Hour,
			Key: carillon.Key{Namespace: "default", Name: name},
			Job: &carillon.Job{Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}})
	}
	return group
}

// TestAStalledGroupKeepsNoChanges: what a group took and left open while the store stalled is not used once the
// bucket of the rate has filled again.
func TestAStalledGroupKeepsNoChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst = 10
		ctx, s := context.Background(), &stalling{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, s)
		for _, c := range puts("there", burst).Commands[1:] {
			c.Job.Name = c.Key.Name
			n.put(*c.Job)
		}
		if _, err := n.PutNamespace(ctx, carillon.Namespace{Name: "default", Quotas: carillon.Quotas{
			Puts: carillon.Rate{Count: burst, Period: time.Second, Burst: burst}}}); err != nil {
			t.Fatal(err)
		}
		group := puts("there", burst) // the first is made
		for i := range group.Commands[1:] {
			group.Commands[1+i].IfAbsent = true
		}
		s.stalls.Store(true)
		decided, err := message.Send(ctx, n.Engine, 0, group)
		if err != nil || decided[0] != message.Done || decided[1] != message.Open {
			t.Fatalf("%v, %v", decided, err)
		}
		s.stalls.Store(false)
		n.mayMake("default", burst)
		n.stop()
	})
}

// TestAGroupThatFailsGivesItsChangesBack: whenever its caller leaves, one that is certainly not made does not
// count.
func TestAGroupThatFailsGivesItsChangesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst, stages, each = 200, 20, 3
		var left, enters atomic.Int64
		leave := func() {}
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 1}),
			Enter: func(context.Context, int, string) {
				if enters.Add(1) == left.Load() {
					leave()
				}
			}})
		n.putRate("default", burst)
		made, failed := 0, 0
		for stage := range int64(stages) {
			group := puts(fmt.Sprint("g", stage, "-"), each)
			ctx, cancel := context.WithCancel(context.Background())
			leave = cancel
			enters.Store(0)
			left.Store(1 + stage)
			decided, err := message.Send(ctx, n.Engine, 0, group)
			left.Store(0)
			cancel()
			e, is := errors.AsType[*carillon.Error](err)
			switch {
			case err == nil:
				for _, d := range decided {
					if d == message.Done {
						made++
					}
				}
			case is && e.Unknown:
				made += each
			default:
				failed++
			}
		}
		if failed == 0 || made == 0 {
			t.Errorf("%d groups failed, %d changes were made", failed, made)
		}
		n.mayMake("default", burst-made)
		n.stop()
	})
}

// TestWhatWasNotTakenIsNotGivenBack: a node that refuses a command for a partition of another takes nothing.
func TestWhatWasNotTakenIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 2, nil)
		f.deal(func(p int) int { return p % 2 })
		f.settled()
		f.setShop(carillon.Quotas{Puts: carillon.Rate{Count: 1, Period: 24 * time.Hour, Burst: 1}})
		key := func(i int) carillon.Key { return carillon.Key{Namespace: "shop", Name: fmt.Sprint("j", i)} }
		here := func(i int) bool { return store.PartitionOf(key(i), 8)%2 == 0 }
		i, k := 0, 0
		for !here(i) {
			i++
		}
		for here(k) {
			k++
		}
		if _, err := f.nodes[0].PutJob(context.Background(), shopJob(i)); err != nil {
			t.Fatal(err)
		}
		wrong := message.Command{Request: "r", KeepFor: time.Hour, Key: key(k), Job: new(shopJob(k))}
		wrong.Job.Schedule = "never"
		_, _ = message.Send(context.Background(), f.nodes[0].Engine, store.PartitionOf(wrong.Key, 8),
			message.Commands{Commands: []message.Command{wrong}})
		_, err := f.nodes[0].PutJob(context.Background(), shopJob(i))
		over(t, err, "quotas.puts", "may change 1 jobs")
		f.stop()
	})
}

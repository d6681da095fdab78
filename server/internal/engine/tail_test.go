package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestEveryNodeTellsTheEventsOfAll while partitions move between the nodes, and one of them ends without order.
func TestEveryNodeTellsTheEventsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 3, nil)
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		var lookers []*looker
		for _, n := range f.nodes {
			lookers = append(lookers, look(t, n, carillon.WatchQuery{Types: []carillon.EventType{"job"}}))
		}
		want := map[string]string{}
		for i := range 300 {
			if i%50 == 25 {
				f.deal(func(p int) int { return (p + i/50) % 3 })
			}
			name := fmt.Sprint("j", i)
			want[name] = "job.created"
			_, err := route(t.Context(), f, func(n *node) (carillon.PutResult, error) {
				return n.PutJob(t.Context(), carillon.Job{Name: name, Schedule: "@every 1000h",
					Target: carillon.WorkerQueue("q")})
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i, l := range lookers {
			if got := typesOf(l.got()); !maps.Equal(got, want) {
				t.Errorf("node %d told of %d jobs, want %d", i, len(got), len(want))
			}
			l.wantOnce()
		}
		if err := lookers[0].end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		lookers[0].again(f.nodes[2]) // a position holds at every node
		time.Sleep(time.Second)
		lookers[0].wantOnce()
		f.stop()
	})
}

// TestAMissedRenewalEndsTheWatch: a partition that could not be told in time that it is watched has not
// recorded what happened since, and the watchers are told so.
func TestAMissedRenewalEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		f.deal(func(p int) int { return p })
		f.settled()
		l := look(t, f.nodes[0], carillon.WatchQuery{})
		time.Sleep(3 * partition.EventsFor)
		var cut atomic.Bool
		f.intercept(func(_ int, m message.Message) error {
			if _, is := m.(message.RecordEvents); is && cut.Load() {
				return carillon.Errorf(carillon.Unavailable, "", "cut off")
			}
			return nil
		})
		cut.Store(true)
		time.Sleep(partition.EventsFor - 2*time.Minute)
		cut.Store(false)
		time.Sleep(partition.EventsFor)
		select {
		case err := <-l.done:
			t.Fatalf("it ended though it was renewed in time: %v", err)
		default:
		}
		cut.Store(true)
		time.Sleep(partition.EventsFor + time.Minute)
		cut.Store(false)
		time.Sleep(time.Minute)
		select {
		case err := <-l.done:
			if !errors.Is(err, carillon.FailedPrecondition) {
				t.Errorf("it ended with %v", err)
			}
		default:
			t.Error("it goes on though something may be missing")
		}
		f.stop()
	})
}

// TestABatchOfUnknownOutcomeIsTold if the store has taken it after all, once the partition is owned again.
func TestABatchOfUnknownOutcomeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, s)
		l := look(t, n, carillon.WatchQuery{})
		time.Sleep(time.Second)
		once := true
		s.fail(func(apply func() error) error {
			err := apply()
			if once && err == nil {
				once, err = false, store.ErrUnknown
			}
			return err
		})
		_, err := n.PutJob(t.Context(), carillon.Job{Name: "a", Schedule: "@every 1000h",
			Target: carillon.WorkerQueue("q")})
		if err == nil {
			t.Fatal("acknowledged")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := typesOf(l.got()); !maps.Equal(got, map[string]string{"a": "job.created"}) {
			t.Errorf("told %v", got)
		}
		n.stop()
	})
}

// slowReads is a store whose reads of events take a while.
type slowReads struct{ store.Store }

type slowShard struct{ store.Shard }

func (s slowReads) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := s.Store.Shard(p, term)
	return slowShard{shard}, err
}

func (s slowShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	records, err := s.Shard.MetaRecords(ctx, q)
	if q.Kind == store.KindEvents {
		time.Sleep(time.Second)
	}
	return records, err
}

// TestAWatchBeginsWhileTheLastOneEnds and reads: what that has read is not of the new one, which begins
// earlier.
func TestAWatchBeginsWhileTheLastOneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, slowReads{memory.New(memory.Options{Partitions: 1})})
		put := func(name string) { putWorker(t, n, carillon.Job{Name: name, Schedule: "@every 1000h"}) }
		first := look(t, n, carillon.WatchQuery{})
		time.Sleep(10 * time.Second)
		end := func(l *looker) {
			if err := l.end(); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		end(first)
		put("a")
		late := look(t, n, carillon.WatchQuery{})
		end(late)
		time.Sleep(10 * time.Second)
		put("b")
		late.again(n)
		time.Sleep(500 * time.Millisecond) // it is reading b
		end(late)
		first.again(n)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := typesOf(first.got()); len(got) != 2 {
			t.Errorf("told of %v", got)
		}
		first.wantOnce()
		n.stop()
	})
}

// TestWatchersAreBounded and one that leaves makes room.
func TestWatchersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		var all []*looker
		for range engine.WatchersMost {
			all = append(all, look(t, n, carillon.WatchQuery{}))
		}
		err := n.Watch(t.Context(), carillon.WatchQuery{}, nil)
		if !errors.Is(err, carillon.ResourceExhausted) {
			t.Errorf("one more: %v", err)
		}
		if err := all[0].end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		look(t, n, carillon.WatchQuery{})
		n.stop()
	})
}

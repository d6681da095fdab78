package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAStandbyOwnsNothing: until it is assigned something; it refuses at once.
func TestAStandbyOwnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 1, nil)
		n := f.nodes[0]
		began := time.Now()
		_, err := n.PutJob(context.Background(), carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || e.Unknown ||
			!errors.Is(err, message.ErrNotOwner) {
			t.Errorf("got %v", err)
		}
		if time.Since(began) > 0 || len(n.Holdings()) > 0 || n.Ready() != nil {
			t.Errorf("after %v: holds %v, ready %v", time.Since(began), n.Holdings(), n.Ready())
		}
		n.Assign(f.all)
		if n.Ready() == nil {
			t.Error("ready before it owns anything")
		}
		f.settled()
		if _, err := n.PutJob(context.Background(),
			carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err != nil {
			t.Error(err)
		}
		f.stop()
	})
}

// TestAStandbyServesNothingThatHasMoved: it was there before the store moved elsewhere, and gets the partitions
// afterwards.
func TestAStandbyServesNothingThatHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 4})
		f := startFleet(t, s, 1, nil)
		terms, err := s.Leaser().Claim(t.Context(), "mover", []int{0, 1, 2, 3}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		mark := store.MetaRecord{Kind: store.KindMove, Key: store.MoveKey, Value: []byte(store.MoveMoved)}
		for p, term := range terms {
			sh, err := s.Shard(p, term)
			if err != nil {
				t.Fatal(err)
			}
			if err := sh.Apply(t.Context(), &store.Batch{MetaRecords: []store.MetaRecord{mark}}); err != nil {
				t.Fatal(err)
			}
			if err := s.Leaser().Release(t.Context(), "mover", []store.Holding{{Partition: p, Term: term}}); err != nil {
				t.Fatal(err)
			}
		}
		n := f.nodes[0]
		n.Assign(f.all)
		time.Sleep(time.Minute)
		if _, err := n.PutJob(context.Background(),
			carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}); err == nil || n.Ready() == nil {
			t.Errorf("a job was put: %v, ready: %v", err, n.Ready())
		}
		f.stop()
	})
}

// TestAStoppedNodeSaysThatItOwnsNothing: so that another node carries out a call that still reaches it.
func TestAStoppedNodeSaysThatItOwnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 4}), 1, nil)
		n := f.nodes[0]
		n.Assign(f.all)
		f.settled()
		f.stop()
		job := carillon.Job{Name: "a", Target: carillon.WorkerQueue("q")}
		_, alone := n.PutJob(context.Background(), job)
		_, many := n.PutJobs(context.Background(),
			[]carillon.Job{job, {Name: "b", Target: job.Target}, {Name: "c", Target: job.Target}})
		for _, err := range []error{alone, many} {
			if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable ||
				e.Unknown || !errors.Is(err, message.ErrNotOwner) {
				t.Errorf("got %v", err)
			}
		}
	})
}

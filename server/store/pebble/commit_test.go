package pebble_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// gate holds up the syncs of the log while it is shut.
type gate struct {
	shut atomic.Bool
	open chan struct{}
}

func (g *gate) String() string { return "gate" }

// MaybeError waits; it never fails.
func (g *gate) MaybeError(op errorfs.Op) error {
	if g.shut.Load() && op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, ".log") {
		<-g.open
	}
	return nil
}

// TestNothingBeforeItIsDurable holds up an fsync: until it ends, neither the Apply nor a read that could show
// its record returns, and other partitions are read as ever.
func TestNothingBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		s, err := pebble.Open("store", pebble.Options{FS: errorfs.Wrap(vfs.NewMem(), g), Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		shards := own(t, s, 2)
		g.shut.Store(true)
		record := job(1, 5, benchSpec)
		applied, seen := make(chan error, 1), make(chan bool, 1)
		go func() { applied <- shards[0].Apply(t.Context(), &store.Batch{Puts: []store.Record{record}}) }()
		synctest.Wait()
		go func() {
			got, err := shards[0].Read(t.Context(), []store.Ref{record.Ref})
			seen <- err == nil && got[0].Exists
		}()
		synctest.Wait()
		if len(applied) != 0 {
			t.Error("Apply returned before the fsync")
		}
		if len(seen) != 0 {
			t.Error("a read showed what a crash can undo")
		}
		if _, err := shards[1].Read(t.Context(), []store.Ref{record.Ref}); err != nil {
			t.Error(err)
		}
		close(g.open)
		if err := <-applied; err != nil {
			t.Error(err)
		}
		if !<-seen {
			t.Error("the record is not there after the fsync")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFenceIsInTheWrite holds up the committer, so that a claim and then a write of the owner it deposes wait
// for it. The write was begun while its term was in force, and must be refused all the same.
func TestFenceIsInTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		s, err := pebble.Open("store", pebble.Options{FS: errorfs.Wrap(vfs.NewMem(), g), Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		shards := own(t, s, 4)
		g.shut.Store(true)
		apply := func(sh store.Shard) chan error {
			done := make(chan error, 1)
			go func() { done <- sh.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(1, 5, benchSpec)}}) }()
			synctest.Wait()
			return done
		}
		// One commit is in its fsync, one behind it, and the committer waits to hand over the third.
		before := []chan error{apply(shards[1]), apply(shards[2]), apply(shards[3])}
		claimed := make(chan error, 1)
		go func() {
			_, err := s.Leaser().Claim(t.Context(), "node", []int{0}, time.Hour)
			claimed <- err
		}()
		synctest.Wait()
		deposed := apply(shards[0])
		close(g.open)
		if err := <-deposed; !errors.Is(err, store.ErrFenced) {
			t.Errorf("the deposed owner's Apply: %v, want ErrFenced", err)
		}
		for _, done := range append(before, claimed) {
			if err := <-done; err != nil {
				t.Errorf("another partition, or the claim: %v", err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

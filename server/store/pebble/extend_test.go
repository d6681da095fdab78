package pebble_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// failing makes the sync of a log fail when some more have been done.
type failing struct{ left atomic.Int64 }

func (f *failing) String() string { return "failing" }

func (f *failing) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, ".log") && f.left.Add(-1) < 0 {
		return errorfs.ErrInjected
	}
	return nil
}

const (
	olderPartitions = 2
	olderJobs       = 200
)

// olderRecords are jobs and pending runs in all phases, due or not, with a short or a long spec.
func olderRecords(p int) (b store.Batch) {
	for i := range olderJobs {
		r := job(olderPartitions*i+p, int64(1+i%3)*int64(i%2), make([]byte, 10+(i%4)*1000))
		r.State.Phase = carillon.Phase(i % 7)
		r.State.Queue = "q"
		b.Puts = append(b.Puts, r)
		run := store.Record{Ref: store.Ref{Key: r.Key, Seq: uint64(i + 1)}, State: r.State}
		run.State.Phase = carillon.Phase(i % 5)
		run.State.Run = store.RunState{Live: true, Seq: run.Seq}
		b.Puts = append(b.Puts, run)
		id := store.RunID{Partition: uint16(p), UID: r.State.UID, Scheduled: int64(i)}
		b.Runs = append(b.Runs, store.RunRecord{Key: r.Key, ID: id, Finished: int64(i * 7 % 100), Expires: math.MaxInt64,
			Status: carillon.RunSucceeded + carillon.RunStatus(i%5)})
	}
	return b
}

// lists are what the lists by phase and by status have.
func lists(t *testing.T, shards []store.Shard) (out []string) {
	t.Helper()
	for p, shard := range shards {
		for phase := carillon.PhaseReady; phase <= carillon.PhaseWaiting; phase++ {
			found, err := shard.List(t.Context(), store.ListQuery{Phase: &phase, Pending: true, Limit: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range found {
				out = append(out, fmt.Sprint(p, phase, r.Ref, r.State.Phase, len(r.Spec)))
			}
		}
		for status := carillon.RunSucceeded; status <= carillon.RunSkipped; status++ {
			found, err := shard.Runs(t.Context(), store.RunQuery{Namespace: "default", Status: &status, Limit: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range found {
				out = append(out, fmt.Sprint(p, status, r.ID, r.Finished))
			}
		}
	}
	return out
}

// older makes a store of format 2, and tells what its lists must be.
func older(t *testing.T, fs vfs.FS) (want []string) {
	t.Helper()
	s, err := pebble.Open("store", pebble.Options{FS: vfs.NewMem(), Partitions: olderPartitions})
	if err != nil {
		t.Fatal(err)
	}
	shards := own(t, s, olderPartitions)
	for p := range shards {
		b := olderRecords(p)
		if err := shards[p].Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	want = lists(t, shards)
	was, err := pebble.Open("store", pebble.Options{FS: fs, Partitions: olderPartitions})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(pebble.CopyAsFormat2(s, was), was.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return want
}

// TestAnOlderStoreIsListed: what a store of format 2 holds is in the lists of this one, also if its first starts
// are cut off. What leaves them later leaves nothing behind: every entry was set once.
func TestAnOlderStoreIsListed(t *testing.T) {
	starts := 0
	for cut := int64(1); ; cut++ {
		fs := vfs.NewMem()
		want := older(t, fs)
		fault := &failing{}
		opt := pebble.Options{FS: errorfs.Wrap(fs, fault), MemTableBytes: 32 << 10}
		opened := 0
		for ; ; opened++ {
			fault.left.Store(cut + int64(opened))
			s, err := pebble.Open("store", opt)
			if err == nil {
				fault.left.Store(math.MaxInt64)
				wantListed(t, s, want)
				break
			}
			if opened > 1000 {
				t.Fatal(err)
			}
		}
		if starts = max(starts, opened); opened == 0 {
			break
		}
	}
	if starts < 3 {
		t.Errorf("no start was cut off more than %d times", starts)
	}
}

// wantListed checks the lists of a store, and closes it when all has left them.
func wantListed(t *testing.T, s *pebble.Store, want []string) {
	t.Helper()
	shards := own(t, s, olderPartitions)
	if got := lists(t, shards); !slices.Equal(got, want) {
		t.Fatalf("listed\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if keys, err := pebble.SetTwice(s); err != nil || len(keys) > 0 {
		t.Errorf("set twice: %q, %v", keys, err)
	}
	for p, shard := range shards {
		b := store.Batch{Expire: &store.Expire{Before: math.MaxInt64, Limit: 10_000}}
		for _, r := range olderRecords(p).Puts {
			if r.Seq == 0 {
				b.Deletes = append(b.Deletes, r.Ref)
			}
		}
		if err := shard.Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []byte("pfxab") {
		if keys, err := pebble.KeysOf(s, kind); err != nil || len(keys) > 0 {
			t.Errorf("of kind %c are left: %q, %v", kind, keys, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCheckLooksIntoTheLists: what no list has is named. A store of an older format has none yet.
func TestCheckLooksIntoTheLists(t *testing.T) {
	fs := vfs.NewMem()
	older(t, fs)
	opt := pebble.Options{FS: fs}
	check := func(what string, lost int) {
		t.Helper()
		got, err := pebble.Check("store", opt)
		if err != nil || got.Refused != nil || len(got.Lost) != lost {
			t.Errorf("%s: %d are lost, want %d; %v, %v", what, len(got.Lost), lost, got.Refused, err)
		}
	}
	check("of format 2", 0)
	for _, c := range []struct {
		what string
		kind byte
		lost int
	}{{"whole", 0, 0}, {"without the list of finished runs", 'f', olderPartitions * olderJobs},
		{"without the list of phases too", 'p', olderPartitions*olderJobs + phased()}} {
		s, err := pebble.Open("store", opt)
		if err != nil {
			t.Fatal(err)
		}
		if c.kind != 0 {
			err = pebble.Drop(s, c.kind)
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		check(c.what, c.lost)
	}
}

// phased is how many of the older records are in a phase that is listed.
func phased() (n int) {
	for p := range olderPartitions {
		for _, r := range olderRecords(p).Puts {
			if r.State.Phase != carillon.PhaseScheduled {
				n++
			}
		}
	}
	return n
}

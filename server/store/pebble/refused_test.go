package pebble_test

import (
	"math"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// refuse builds a batch as an Apply does that loses its partition before its turn comes: nothing of it is
// written.
func refuse(t *testing.T, s *pebble.Store, sh store.Shard, b store.Batch) {
	t.Helper()
	if _, _, err := pebble.Built(s, []store.Write{{Shard: sh, Batch: &b}}); err != nil {
		t.Fatal(err)
	}
}

// commit applies a batch, which must succeed.
func commit(t *testing.T, sh store.Shard, b store.Batch) {
	t.Helper()
	if err := sh.Apply(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

// run is a finished run of the i-th job.
func run(i int, scheduled int64, status carillon.RunStatus) store.RunRecord {
	r := finished(job(i, scheduled, nil), scheduled+1)
	r.Status = status
	return r
}

// again is the same run, finished once more.
func again(r store.RunRecord) store.RunRecord {
	r.Finished, r.Expires = r.Finished+100, r.Expires+100
	return r
}

// wantRunOnce checks that the history has a run once, and lets go of it.
func wantRunOnce(t *testing.T, sh store.Shard, want store.RunRecord) {
	t.Helper()
	dead, err := sh.Runs(t.Context(), store.RunQuery{Namespace: want.Key.Namespace, Limit: 10})
	if err != nil || want.Status == carillon.RunDead && len(dead) != 1 {
		t.Errorf("dead runs: %v, %v", dead, err)
	}
	if err := sh.Apply(t.Context(), &store.Batch{Expire: &store.Expire{Before: math.MaxInt64, Most: 10, Limit: 10}}); err != nil {
		t.Errorf("Expire: %v", err)
	}
}

// reopened is a store that is closed and opened after batches were applied to its partition 0.
func reopened(t *testing.T, batches ...store.Batch) (*pebble.Store, store.Shard) {
	t.Helper()
	opt := pebble.Options{FS: vfs.NewMem(), Partitions: 1}
	s, err := pebble.Open("store", opt)
	if err != nil {
		t.Fatal(err)
	}
	sh := own(t, s, 1)[0]
	for _, b := range batches {
		commit(t, sh, b)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, "store", opt)
	return s, own(t, s, 1)[0]
}

// A refused batch that deletes the last pending run does not make the store believe that there is none.
func TestRefusedDeleteOfTheLastPendingRun(t *testing.T) {
	a, b := job(1, 5, benchSpec), job(2, 5, benchSpec)
	child := job(1, 5, nil)
	child.Seq = 1
	s, sh := reopened(t, store.Batch{Puts: []store.Record{a, b, child}})
	refuse(t, s, sh, store.Batch{Deletes: []store.Ref{child.Ref, b.Ref}, Trims: []store.Trim{{Key: a.Key, Keep: 1}}})
	commit(t, sh, store.Batch{Deletes: []store.Ref{a.Ref}})
	got, err := sh.Read(t.Context(), []store.Ref{child.Ref})
	if err != nil || got[0].Exists {
		t.Errorf("the pending run is there without its job: %v, %v", got, err)
	}
}

// A refused batch that takes the only run out of the history does not make the store believe that there is
// none.
func TestRefusedRedriveOfTheOnlyRun(t *testing.T) {
	dead := run(1, 1000, carillon.RunDead)
	s, sh := reopened(t, store.Batch{Runs: []store.RunRecord{dead}})
	refuse(t, s, sh, store.Batch{Redrive: []store.RunRef{{Key: dead.Key, ID: dead.ID}},
		Runs: []store.RunRecord{run(2, 1001, carillon.RunSucceeded)}})
	commit(t, sh, store.Batch{Runs: []store.RunRecord{again(dead)}})
	wantRunOnce(t, sh, again(dead))
}

// A refused batch that trims the latest run does not make the store believe that all are older.
func TestRefusedTrimOfTheLatestRun(t *testing.T) {
	late := run(1, 2000, carillon.RunSucceeded)
	s, sh := reopened(t, store.Batch{Runs: []store.RunRecord{late, run(2, 1000, carillon.RunSucceeded)}})
	refuse(t, s, sh, store.Batch{Trims: []store.Trim{{Key: late.Key}}, Expire: &store.Expire{Most: 10, Limit: 1}})
	commit(t, sh, store.Batch{Runs: []store.RunRecord{again(late)}})
	wantRunOnce(t, sh, late)
}

// hitch fails the writes of the log while it is shut, each when it is let go on.
type hitch struct {
	shut atomic.Bool
	goOn chan struct{}
}

func (h *hitch) String() string { return "hitch" }

func (h *hitch) MaybeError(op errorfs.Op) error {
	if !h.shut.Load() || op.Kind != errorfs.OpFileWrite {
		return nil
	}
	<-h.goOn
	return syscall.EIO
}

// What a former owner sees of a batch before that is durable, and then lost, is forgotten when the store
// recovers.
func TestLostBatchIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hitch{goOn: make(chan struct{})}
		fs := vfs.NewMem()
		opt := pebble.Options{FS: errorfs.Wrap(fs, h), Partitions: 1, RetryAfter: 1}
		s, err := pebble.Open("store", opt)
		if err != nil {
			t.Fatal(err)
		}
		dead := run(1, 1000, carillon.RunDead)
		commit(t, own(t, s, 1)[0], store.Batch{Runs: []store.RunRecord{dead}})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, "store", opt)
		sh := own(t, s, 1)[0]
		h.shut.Store(true)
		lost := make(chan error, 1)
		go func() {
			lost <- sh.Apply(t.Context(), &store.Batch{Redrive: []store.RunRef{{Key: dead.Key, ID: dead.ID}}})
		}()
		synctest.Wait()
		refuse(t, s, sh, store.Batch{Runs: []store.RunRecord{run(2, 1001, carillon.RunSucceeded)}})
		h.shut.Store(false)
		close(h.goOn)
		if err := <-lost; store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("Apply: %v", err)
		}
		<-time.After(time.Second) // of the bubble: the store opens again
		sh = own(t, s, 1)[0]
		commit(t, sh, store.Batch{Runs: []store.RunRecord{again(dead)}})
		wantRunOnce(t, sh, again(dead))
	})
}

// unsynced fails the syncs of the log while it is shut.
type unsynced struct{ shut atomic.Bool }

func (u *unsynced) String() string { return "unsynced" }

func (u *unsynced) MaybeError(op errorfs.Op) error {
	if u.shut.Load() && op.Kind == errorfs.OpFileSyncData {
		return syscall.EIO
	}
	return nil
}

// turncoat is a disk that can become another.
type turncoat struct{ vfs.FS }

// What is read between a failed fsync and the recovery may be in the system's memory only: nothing is built
// on it.
func TestWhatWasReadMeanwhileIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, fs := &unsynced{}, vfs.NewCrashableMem()
		disk := &turncoat{fs}
		s := open(t, "store", pebble.Options{FS: errorfs.Wrap(disk, u), Partitions: 1, RetryAfter: time.Hour})
		sh := own(t, s, 1)[0]
		commit(t, sh, store.Batch{Puts: []store.Record{job(1, 5, benchSpec)}})
		u.shut.Store(true)
		if err := sh.Apply(t.Context(), &store.Batch{Puts: []store.Record{job(1, 6,
			nil)}}); store.OutcomeOf(err) != store.Unknown {
			t.Fatalf("Apply: %v", err)
		}
		got, err := sh.Read(t.Context(), []store.Ref{job(1, 0, nil).Ref})
		if err != nil || got[0].State.Due != 6 {
			t.Fatalf("what was not synced is not read: %v, %v", got, err)
		}
		disk.FS = fs.CrashClone(vfs.CrashCloneCfg{})
		u.shut.Store(false)
		<-time.After(2 * time.Hour) // of the bubble: the store opens again
		sh = own(t, s, 1)[0]
		commit(t, sh, store.Batch{Puts: []store.Record{job(1, 7, nil)}})
		got, err = sh.Due(t.Context(), store.DueQuery{Priority: 2, Until: 10, Limit: 10})
		if err != nil || len(got) != 1 || got[0].State.Due != 7 {
			t.Errorf("due: %v, %v", got, err)
		}
	})
}

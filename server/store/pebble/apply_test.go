package pebble_test

import (
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

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
	dead, err := sh.Runs(t.Context(), store.RunQuery{Namespace: want.Key.Namespace, Status: new(carillon.RunDead),
		Limit: 10})
	if err != nil || want.Status == carillon.RunDead && len(dead) != 1 {
		t.Errorf("dead runs: %v, %v", dead, err)
	}
	if err := sh.Apply(t.Context(), &store.Batch{Expire: &store.Expire{Before: math.MaxInt64, Most: 10,
		Limit: 10}}); err != nil {
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
	refuse(t, s, sh, store.Batch{Deletes: []store.Ref{child.Ref, b.Ref},
		Trims: []store.Trim{{Key: a.Key, Keep: 1}}})
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
	refuse(t, s, sh, store.Batch{Trims: []store.Trim{{Key: late.Key}},
		Expire: &store.Expire{Most: 10, Limit: 1}})
	commit(t, sh, store.Batch{Runs: []store.RunRecord{again(late)}})
	wantRunOnce(t, sh, late)
}

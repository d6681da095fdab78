package pebble

import (
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestABatchSeesItsOwnWritesWhereItMust: only then does it pay for an index of them.
func TestABatchSeesItsOwnWritesWhereItMust(t *testing.T) {
	key := carillon.Key{Namespace: "ns", Name: "a"}
	job, pending := store.Record{Ref: store.Ref{Key: key}}, store.Record{Ref: store.Ref{Key: key, Seq: 1}}
	run, other := store.RunRecord{Key: key, ID: store.RunID{Seq: 1}}, store.RunRecord{Key: key,
		ID: store.RunID{Seq: 2}}
	many := make([]store.RunRecord, 20)
	for i := range many {
		many[i] = store.RunRecord{Key: key, ID: store.RunID{Scheduled: int64(i)}}
	}
	for name, c := range map[string]struct {
		batch store.Batch
		want  bool
	}{
		"puts":    {store.Batch{Puts: []store.Record{job, pending}}, false},
		"deletes": {store.Batch{Deletes: []store.Ref{job.Ref}}, false},
		"a put and a delete": {store.Batch{Puts: []store.Record{job}, Deletes: []store.Ref{pending.Ref}},
			false},
		"a run put after a delete": {store.Batch{Puts: []store.Record{pending}, Deletes: []store.Ref{job.Ref}},
			true},
		"runs":      {store.Batch{Runs: []store.RunRecord{run, other}}, false},
		"many runs": {store.Batch{Runs: many}, false},
		"one of many twice": {store.Batch{Runs: append(slices.Clip(many), many[3])},
			true},
		"a run twice": {store.Batch{Runs: []store.RunRecord{run, other, run}}, true},
		"a redrive":   {store.Batch{Redrive: []store.RunRef{{Key: key, ID: run.ID}}}, false},
		"a redrive beside a run": {store.Batch{Redrive: []store.RunRef{{Key: key, ID: run.ID}},
			Runs: []store.RunRecord{run}}, true},
		"a trim":                    {store.Batch{Trims: []store.Trim{{Key: key}}}, true},
		"an end of retention":       {store.Batch{Expire: &store.Expire{}}, true},
		"a change of metadata only": {store.Batch{MetaRecords: []store.MetaRecord{{Kind: 'a'}}}, false},
	} {
		if got := readsOwnWrites(&c.batch, runsRepeat(c.batch.Runs)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAChangeWritesNoMoreThanItMust: how many keys Pebble is told to set or remove.
func TestAChangeWritesNoMoreThanItMust(t *testing.T) {
	s, err := Open("store", Options{FS: vfs.NewMem(), Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{0}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(0, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	ref := store.Ref{Key: carillon.Key{Namespace: "ns", Name: "a"}}
	short, long := []byte("short"), make([]byte, defaultInlineSpec+1)
	state := func(due int64) store.State { return store.State{Due: due} }
	in := func(p carillon.Phase) store.State { return store.State{Due: 6, Phase: p} }
	succeeded := store.RunRecord{Key: ref.Key, ID: store.RunID{Seq: 1}, Status: carillon.RunSucceeded}
	dead := store.RunRecord{Key: ref.Key, ID: store.RunID{Seq: 2}, Status: carillon.RunDead}
	for i, c := range []struct {
		what  string
		batch store.Batch
		want  int
	}{
		{"a job: its head and its place in the due index",
			store.Batch{Puts: []store.Record{{Ref: ref, Spec: short, State: state(5)}}}, 2},
		{"its state, at the same time", store.Batch{Puts: []store.Record{{Ref: ref, State: state(5)}}}, 2},
		{"its state, at another time", store.Batch{Puts: []store.Record{{Ref: ref, State: state(6)}}}, 3},
		{"a long spec, which has a key of its own",
			store.Batch{Puts: []store.Record{{Ref: ref, Spec: long, State: state(6)}}}, 3},
		{"its state, which leaves the long spec alone",
			store.Batch{Puts: []store.Record{{Ref: ref, State: state(6)}}}, 2},
		{"its delete", store.Batch{Deletes: []store.Ref{ref}}, 3},
		{"the delete of what is not there", store.Batch{Deletes: []store.Ref{ref}}, 0},
		{"a job that is paused: one key more, by its phase",
			store.Batch{Puts: []store.Record{{Ref: ref, Spec: short, State: in(carillon.PhasePaused)}}}, 3},
		{"its state, in the same phase", store.Batch{Puts: []store.Record{{Ref: ref, State: in(carillon.PhasePaused)}}}, 2},
		{"its state, in another phase", store.Batch{Puts: []store.Record{{Ref: ref, State: in(carillon.PhaseRunning)}}}, 4},
		{"its state, scheduled", store.Batch{Puts: []store.Record{{Ref: ref, State: state(6)}}}, 3},
		{"a finished run: itself, its age, and its end", store.Batch{Runs: []store.RunRecord{succeeded}}, 3},
		{"a dead one", store.Batch{Runs: []store.RunRecord{dead}}, 3},
		{"its redrive", store.Batch{Redrive: []store.RunRef{{Key: ref.Key, ID: dead.ID}}}, 3},
	} {
		if n, _, err := Built(s, []store.Write{{Shard: shard, Batch: &c.batch}}); err != nil || n != c.want {
			t.Errorf("%d, %s: %d operations, want %d; %v", i, c.what, n, c.want, err)
		}
		if err := shard.Apply(t.Context(), &c.batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

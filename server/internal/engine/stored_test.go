package engine

import (
	"context"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	memstore "github.com/carillonhq/carillon/server/store/memory"
)

// written is a store with batches in its partitions, and the shards of the terms that wrote them.
func written(t *testing.T, batches ...*store.Batch) (s *memstore.Store, shards []store.Shard) {
	t.Helper()
	s = memstore.New(memstore.Options{Partitions: len(batches)})
	for p, b := range batches {
		terms, err := s.Leaser().Claim(t.Context(), "node", []int{p}, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		shard, err := s.Shard(p, terms[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := shard.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		shards = append(shards, shard)
	}
	return s, shards
}

// recordOf is the record of a job.
func recordOf(j carillon.Job, state store.State) store.Record {
	return store.Record{Ref: store.Ref{Key: j.Key()}, Spec: codec.EncodeSpec(&j), State: state}
}

// TestStoredJobsAndRuns: a node without a term answers reads with what the store has, finished runs included.
func TestStoredJobsAndRuns(t *testing.T) {
	key := carillon.Key{Namespace: "default", Name: "a"}
	uid := store.NewUID(key, [8]byte{1})
	id := func(scheduled int64) store.RunID { return store.RunID{UID: uid, Scheduled: scheduled} }
	broken := store.Record{Ref: store.Ref{Key: carillon.Key{Namespace: "default", Name: "broken"}},
		Spec: []byte{0xff}}
	s, _ := written(t, &store.Batch{
		Puts: []store.Record{recordOf(carillon.Job{Namespace: "default", Name: "a", Note: "mine",
			Target: carillon.WorkerQueue("q")},
			store.State{UID: uid, Generation: 3, Run: store.RunState{Live: true, Scheduled: 7, Attempt: 2}}), broken},
		Runs: []store.RunRecord{{Key: key, ID: id(5), Status: carillon.RunSucceeded, Attempt: 4, Finished: 6,
			Expires: 1 << 60}},
	})
	ps := somePartitions(1, nil)
	reader, err := s.Shard(0, store.Term{})
	if err != nil {
		t.Fatal(err)
	}
	ps.shards = []store.Shard{reader}
	ctx := context.Background()

	if j, err := ps.storedJob(ctx, key, nil); err != nil || j.Note != "mine" || j.Status == nil ||
		j.Status.Generation != 3 ||
		j.Status.Current == nil || j.Status.Current.Attempt != 2 {
		t.Errorf("the job is %+v, %v", j, err)
	}
	if u, err := ps.storedUpcoming(ctx, key); err != nil {
		t.Error(err)
	} else if got := u.Times(8, carillon.TimesQuery{}); len(got.Times) != 0 || got.End == nil || got.End.Code != carillon.EndOnce {
		t.Errorf("the next times are %+v", got)
	}
	if _, err := ps.storedUpcoming(ctx, carillon.Key{Namespace: "default", Name: "b"}); carillon.KindOf(err) != carillon.NotFound {
		t.Errorf("the next times of a job that never was: %v", err)
	}
	if _, err := ps.storedUpcoming(ctx, broken.Key); carillon.KindOf(err) != carillon.DataLoss {
		t.Errorf("the next times of a job with a damaged spec: %v", err)
	}
	if r, err := ps.storedRun(ctx, ps.parts[0], id(7), nil); err != nil || r.Attempt != 2 || r.Job != "a" {
		t.Errorf("the unfinished run is %+v, %v", r, err)
	}
	if r, err := ps.storedRun(ctx, ps.parts[0], id(5), nil); err != nil || r.Attempt != 4 ||
		r.Status != carillon.RunSucceeded {
		t.Errorf("the finished run is %+v, %v", r, err)
	}
	if r, err := ps.storedRun(ctx, ps.parts[0], id(6), nil); carillon.KindOf(err) != carillon.NotFound {
		t.Errorf("a run that never was is %+v, %v", r, err)
	}
	for refusal, code := range map[error]string{notOwner(0): carillon.HoldPartitionUnowned,
		unavailable(context.Canceled): carillon.HoldStoreAway} {
		j, err := ps.storedJob(ctx, key, refusal)
		if err != nil || j.Status.Hold == nil || j.Status.Hold.Code != code {
			t.Errorf("%v: the job says %+v, %v", refusal, j.Status, err)
		}
		r, err := ps.storedRun(ctx, ps.parts[0], id(7), refusal)
		if err != nil || r.Hold == nil || r.Hold.Code != code {
			t.Errorf("%v: the run says %+v, %v", refusal, r.Hold, err)
		}
	}
	if j, err := ps.storedJob(ctx, carillon.Key{Namespace: "default",
		Name: "b"}, nil); carillon.KindOf(err) != carillon.NotFound {
		t.Errorf("a job that never was is %+v, %v", j, err)
	}
	if j, err := ps.storedJob(ctx, broken.Key, nil); carillon.KindOf(err) != carillon.DataLoss {
		t.Errorf("a job with a damaged spec is %+v, %v", j, err)
	}
}

// TestReadsAreAnsweredFromTheStore: when the partition cannot answer, but not when it has answered.
func TestReadsAreAnsweredFromTheStore(t *testing.T) {
	for kind, want := range map[carillon.Kind]bool{
		carillon.Unavailable: true, carillon.DataLoss: true,
		carillon.NotFound: false, carillon.InvalidArgument: false, carillon.DeadlineExceeded: false,
		carillon.Canceled: false,
	} {
		if got := refused(carillon.Errorf(kind, "", "no")); got != want {
			t.Errorf("%v: %v", kind, got)
		}
	}
}

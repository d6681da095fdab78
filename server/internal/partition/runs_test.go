package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// TestAPendingRunIsARecordOfItsOwn: it and the job's count of it are written in one batch, before the run is
// handed out, and go in one batch when it has ended.
func TestAPendingRunIsARecordOfItsOwn(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@yearly"})
	r.trigger("a")
	if ds := r.deliver(1); len(ds) > 0 {
		t.Fatal("it is handed out before it is durable")
	}
	r.take()
	if b := r.batches[0]; len(b.Puts) != 2 {
		t.Fatalf("the batch puts %d records, want the run and its job", len(b.Puts))
	}
	r.land()
	refs := []store.Ref{{Key: keyOf("a")}, {Key: keyOf("a"), Seq: 1}}
	if got := r.read(refs); !got[1].Exists || got[0].State.Pending != 1 {
		t.Fatalf("stored are %+v", got)
	}
	r.succeed(r.deliver(1)[0])
	r.take()
	if b := r.batches[0]; len(b.Deletes) != 1 || b.Deletes[0] != refs[1] || len(b.Runs) != 1 {
		t.Errorf("the batch deletes %v and ends %d runs", b.Deletes, len(b.Runs))
	}
	r.land()
	if got := r.read(refs); got[1].Exists || !got[0].Exists || got[0].State.Pending != 0 {
		t.Errorf("stored are %+v", got)
	}
}

// TestAJobStaysForItsPendingRuns: a one-shot whose own run has ended goes with the last of them.
func TestAJobStaysForItsPendingRuns(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second)})
	r.trigger("a")
	r.trigger("a")
	r.flush()
	r.advance(time.Second)
	ds := r.deliver(3)
	if len(ds) != 3 {
		t.Fatalf("%d runs are due", len(ds))
	}
	for _, d := range slices.Backward(ds) { // its own run first
		if len(r.jobs()) != 1 {
			t.Error("the job has gone before its runs")
		}
		r.succeed(d)
		r.flush()
	}
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Errorf("left behind: %+v", jobs)
	}
	if s := r.m.Stats(); s != (partition.Stats{}) {
		t.Errorf("left in memory: %+v", s)
	}
}

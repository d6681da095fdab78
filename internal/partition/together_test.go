package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// TestARedrivenRunKeepsItsContentOutOfMemory redrives a run whose payload is too long to be kept in memory, while its job
// has been given another one.
func TestARedrivenRunKeepsItsContentOutOfMemory(t *testing.T) {
	r := newRig(t, partition.Config{})
	long := make([]byte, 2*partition.InlineSpec)
	j := carillon.Job{Name: "a", Schedule: "@every 1h", Data: carillon.Bytes(long, ""), FailurePolicy: carillon.Drop()}
	j.FailurePolicy = carillon.Constant(time.Second).WithMaxRetries(0)
	j.FailurePolicy.OnExhausted = carillon.ExhaustedDead
	r.mustPut(j)
	if _, err := r.m.Trigger(r.now, keyA); err != nil {
		t.Fatal(err)
	}
	r.flush()
	first := r.deliver(1)[0]
	r.failRun(first)
	r.flush()
	j.Data = carillon.Bytes([]byte("other"), "")
	r.mustPut(j)
	if _, err := r.m.Redrive(r.now, r.history("a")[0]); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.start() // what is read of long records is their state
	ds := r.deliver(1)
	if len(ds) != 1 || len(ds[0].Run.Data.Bytes) != len(long) || ds[0].Run.ID != first.Run.ID || ds[0].Run.Token == first.Run.Token {
		t.Fatalf("%+v", ds)
	}
}

// TestAOneShotAtATimeThatRunsAlready is put in place of a job under allow whose run of that very time is going on beside
// another: they would have one id.
func TestAOneShotAtATimeThatRunsAlready(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Overlap: carillon.OverlapAllow})
	r.advance(10 * time.Second)
	r.deliver(1)
	r.advance(10 * time.Second)
	beside := r.deliver(1)[0]
	r.mustPut(carillon.Job{Name: "a", Due: carillon.At(beside.Run.Scheduled)})
	ids := map[string]bool{}
	for range 3 {
		for _, d := range r.deliver(5) {
			if ids[d.Run.ID] {
				t.Fatalf("two runs have the id %s", d.Run.ID)
			}
			ids[d.Run.ID] = true
			if v := r.succeed(d); v != partition.Accepted {
				t.Fatal(v)
			}
		}
		r.flush()
	}
	if !ids[beside.Run.ID] || len(ids) != 1 || len(r.jobs()) != 0 {
		t.Fatalf("%d runs, left %+v", len(ids), r.jobs())
	}
}

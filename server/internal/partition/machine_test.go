package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestOneShotLeavesNothingBehind(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(2 * time.Second)})
	if ds := r.deliver(10); len(ds) != 0 {
		t.Fatalf("delivered %d before it was due", len(ds))
	}
	r.advance(2 * time.Second)
	ds := r.deliver(10)
	if len(ds) != 1 || ds[0].Run.Attempt != 1 || ds[0].Run.Job != "a" {
		t.Fatalf("got %+v", ds)
	}
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Fatalf("verdict %v", v)
	}
	r.flush()
	if jobs := r.jobs(); len(jobs) != 0 {
		t.Fatalf("left behind: %+v", jobs)
	}
	if s := r.m.Stats(); s != (partition.Stats{}) {
		t.Fatalf("left in memory: %+v", s)
	}
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunSucceeded || h[0].Attempt != 1 {
		t.Fatalf("history %+v", h)
	}
}

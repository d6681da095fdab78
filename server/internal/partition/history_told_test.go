package partition_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestTheEndOfARunIsTold with its queue and how long it took, retries included; a run that nobody had took no
// time.
func TestTheEndOfARunIsTold(t *testing.T) {
	var ends []delivery.Finished
	r := newRig(t, partition.Config{Events: partition.Events{
		Finished: func(f delivery.Finished) { ends = append(ends, f) }}})
	r.mustPut(carillon.Job{Name: "a"})
	r.failRun(r.deliver(1)[0])
	r.flush()
	began := r.now
	r.advance(time.Minute)
	second := r.deliver(1)[0]
	r.succeed(second)
	queue := second.Queue
	r.mustPut(carillon.Job{Name: "b"})
	if _, err := r.m.Jobs.Delete(r.now, keyOf("b")); err != nil {
		t.Fatal(err)
	}
	r.flush()
	want := []delivery.Finished{
		{Queue: queue, Status: carillon.RunSucceeded, Took: time.Duration(r.now - began)},
		{Queue: queue, Status: carillon.RunCancelled, Took: -1},
	}
	if !slices.Equal(ends, want) {
		t.Errorf("told %+v, want %+v", ends, want)
	}
}

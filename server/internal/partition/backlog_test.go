package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestABacklogIsWorkedOffByClass starts with more due than fits into memory. The highest priority goes first.
func TestABacklogIsWorkedOffByClass(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const window = 32
		r := newRig(rt, partition.Config{WindowJobs: window, WindowBytes: 64 << 10})
		classes := []carillon.Priority{carillon.PriorityCritical, carillon.PriorityHigh,
			carillon.PriorityNormal, carillon.PriorityLow}
		n := rapid.IntRange(window, 10*window).Draw(rt, "jobs")
		for i := range n {
			j := carillon.Job{Name: fmt.Sprint(i), Priority: rapid.SampledFrom(classes).Draw(rt, "priority"),
				Lease: time.Hour, Due: carillon.In(time.Minute + time.Duration(rapid.IntRange(0, 100).Draw(rt,
					"due"))*time.Millisecond)}
			if rapid.IntRange(0, 9).Draw(rt, "large") == 0 {
				j.Data = long
			}
			if rapid.IntRange(0, 9).Draw(rt, "future") == 0 {
				j.Due, n = carillon.In(time.Hour), n-1
			}
			if _, err := r.put(j); err != nil {
				rt.Fatal(err)
			}
		}
		r.flush()
		r.now += int64(2 * time.Minute)
		r.start()
		r.flush()
		took := rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(rt, "took")
		var order []uint8
		for i := range n {
			if s := r.m.Stats(); s.Resident > window*5/4 {
				rt.Fatalf("%d in memory", s.Resident)
			}
			ds := r.deliver(1)
			if len(ds) != 1 {
				rt.Fatalf("%d of %d are delivered", i, n)
			}
			order = append(order, rank(r, ds[0]))
			r.succeed(ds[0])
			r.advance(took)
		}
		if took == 0 && !slices.IsSorted(order) {
			rt.Fatalf("the order of classes is %v", order)
		}
	})
}

// TestNoClassStarvesInABacklog feeds critical runs without end while a run of low priority waits in the
// store.
func TestNoClassStarvesInABacklog(t *testing.T) {
	const window = 32
	r := newRig(t, partition.Config{WindowJobs: window})
	for i := range 20 * window {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("critical/%d", i), Priority: carillon.PriorityCritical,
			Due: carillon.In(time.Minute)})
	}
	r.mustPut(carillon.Job{Name: "low", Priority: carillon.PriorityLow, Due: carillon.In(time.Minute + 1)})
	r.now += int64(2 * time.Minute)
	r.start()
	r.flush()
	if s := r.m.Stats(); s.Resident > window {
		t.Fatalf("%d in memory", s.Resident)
	}
	for range 10 * window {
		d := r.deliver(1)[0]
		if d.Run.Job == "low" {
			return
		}
		r.succeed(d)
		r.advance(time.Second)
	}
	t.Fatal("the low one starves")
}

package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestFarJobsOfAHigherClassDoNotKeepOthersOut(t *testing.T) {
	const window = 64
	r := newRig(t, partition.Config{WindowJobs: window})
	for i := range 10 * window {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("far/%d", i), Priority: carillon.PriorityCritical,
			Due: carillon.In(50 * time.Minute)})
	}
	for i := range 3 * window {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("near/%d", i),
			Due: carillon.In(time.Minute + time.Duration(i)*time.Second)})
	}
	r.start()
	for i := range 10 * window { // distant ones, put while the frontier of their priority is far ahead
		r.mustPut(carillon.Job{Name: fmt.Sprintf("more/%d", i), Priority: carillon.PriorityCritical,
			Due: carillon.In(40 * time.Minute)})
	}
	r.mustPut(carillon.Job{Name: "new", Priority: carillon.PriorityLow, Due: carillon.In(time.Minute)})
	done := 0
	for range 10 * 60 {
		r.advance(time.Second)
		for _, d := range r.deliver(100) {
			if late := r.now - d.Run.Due.UnixNano(); late > int64(2*time.Second) {
				t.Fatalf("%s is late by %v", d.Run.Job, time.Duration(late))
			}
			r.succeed(d)
			done++
		}
		r.flush()
		if n := r.m.Stats().Resident; n > 2*window {
			t.Fatalf("%d in memory", n)
		}
	}
	if done != 3*window+1 {
		t.Fatalf("%d of %d ran", done, 3*window+1)
	}
}

// TestLargePayloadsOfLongRunsKeepNobodyOut has runs that go on for hours and whose payloads fill the
// memory for specs.
func TestLargePayloadsOfLongRunsKeepNobodyOut(t *testing.T) {
	r := newRig(t, partition.Config{WindowJobs: 16, WindowBytes: 64 << 10})
	big := make([]byte, 16<<10)
	r.mustPut(carillon.Job{Name: "other", Data: carillon.Bytes(big, ""), Due: carillon.In(time.Minute)})
	for i := range 20 {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("small/%d", i), Due: carillon.In(time.Minute)})
	}
	for i := range 10 {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("long/%d", i), Data: carillon.Bytes(big, ""),
			Lease: 24 * time.Hour})
	}
	var long []delivery.Delivery
	for range 10 {
		long = append(long, r.deliver(10)...)
		r.advance(2 * time.Second)
	}
	if len(long) != 10 {
		t.Fatalf("%d of 10 begun", len(long))
	}
	r.advance(2 * time.Minute)
	n := 0
	for range 10 {
		for _, d := range r.deliver(100) {
			r.succeed(d)
			n++
		}
		r.flush()
	}
	if n != 21 {
		t.Fatalf("%d of 21 run beside them", n)
	}
	if b := r.m.Stats().Bytes; b > 128<<10 {
		t.Fatalf("%d bytes of specs in memory", b)
	}
	for _, d := range long {
		if v := r.succeed(d); v != partition.Accepted {
			t.Fatalf("%s: %v; cancelled: %+v", d.Run.Job, v, r.cancels)
		}
	}
}

func TestWindowIsBounded(t *testing.T) {
	const jobs, window = 3000, 256
	r := newRig(t, partition.Config{WindowJobs: window})
	for i := range jobs {
		if _, err := r.put(carillon.Job{Name: "j/" + time.Duration(i).String(),
			Due: carillon.In(time.Duration(jobs-i) * time.Second)}); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			r.flush()
			if n := r.m.Stats().Resident; n > 2*window {
				t.Fatalf("%d in memory", n)
			}
		}
	}
	r.start()
	done := 0
	for done < jobs && r.now < epoch+int64(2*time.Hour) {
		r.advance(10 * time.Second)
		if n := r.m.Stats().Resident; n > 2*window {
			t.Fatalf("%d in memory", n)
		}
		for ds := r.deliver(100); len(ds) > 0; ds = r.deliver(100) {
			for _, d := range ds {
				if late := r.now - d.Run.Due.UnixNano(); late > int64(10*time.Second) {
					t.Fatalf("late by %v", time.Duration(late))
				}
				r.succeed(d)
				done++
			}
			r.flush()
		}
	}
	if done != jobs || len(r.jobs()) != 0 {
		t.Fatalf("%d of %d ran, %d left", done, jobs, len(r.jobs()))
	}
}

func TestLargePayloadsAreReadWhenDue(t *testing.T) {
	r := newRig(t, partition.Config{WindowBytes: 64 << 10})
	big := make([]byte, 16<<10)
	for i := range 50 {
		r.mustPut(carillon.Job{Name: "big" + string(rune('A'+i)), Due: carillon.In(time.Minute),
			Data: carillon.Bytes(big, "")})
	}
	if b := r.m.Stats().Bytes; b > 64<<10 {
		t.Fatalf("%d bytes of specs in memory", b)
	}
	r.advance(time.Minute)
	done := 0
	for ds := r.deliver(3); len(ds) > 0; ds = r.deliver(3) {
		for _, d := range ds {
			if len(d.Run.Data.Bytes) != len(big) {
				t.Fatal("payload lost")
			}
			r.succeed(d)
			done++
		}
		r.flush()
	}
	if done != 50 {
		t.Fatalf("%d ran", done)
	}
}

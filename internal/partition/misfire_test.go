package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// workOff delivers one run at a time, each of which succeeds at once, and returns their scheduled times.
func (r *rig) workOff() (got []int) {
	for ds := r.deliver(1); len(ds) == 1; ds = r.deliver(1) {
		got = append(got, second(ds[0]))
		r.succeed(ds[0])
		r.flush()
	}
	return got
}

// passedOver returns how many times of a job did not run, by reason.
func (r *rig) passedOver(name string) map[string]uint64 {
	n := map[string]uint64{}
	for _, h := range r.history(name) {
		if h.Status == carillon.RunSkipped {
			n[h.Reason] += max(1, h.Skipped)
		}
	}
	return n
}

func TestBoundsOnCatchingUp(t *testing.T) {
	for name, c := range map[string]struct {
		job     carillon.Job
		want    []int
		skipped uint64
	}{
		"all":             {carillon.Job{Misfire: carillon.MisfireAll}, []int{10, 20, 30, 40, 50, 60}, 0},
		"limit":           {carillon.Job{Misfire: carillon.MisfireAll, CatchUpLimit: 2}, []int{50, 60}, 4},
		"window":          {carillon.Job{Misfire: carillon.MisfireAll, CatchUpWindow: 30 * time.Second}, []int{40, 50, 60}, 3},
		"both":            {carillon.Job{Misfire: carillon.MisfireAll, CatchUpWindow: 30 * time.Second, CatchUpLimit: 2}, []int{50, 60}, 4},
		"latest":          {carillon.Job{Misfire: carillon.MisfireLatest}, []int{60}, 5},
		"latest, too old": {carillon.Job{Misfire: carillon.MisfireLatest, CatchUpWindow: 7 * time.Second}, nil, 6},
		"skip":            {carillon.Job{Misfire: carillon.MisfireSkip}, nil, 6},
	} {
		t.Run(name, func(t *testing.T) {
			c.job.Name, c.job.Schedule = "a", "@every 10s"
			r := newRig(t, partition.Config{})
			r.mustPut(c.job)
			r.now += int64(68 * time.Second) // everything is down
			r.start()
			r.flush()
			if got := r.workOff(); !slices.Equal(got, c.want) {
				t.Errorf("after an outage it ran %v, want %v", got, c.want)
			}
			if n := r.passedOver("a"); n[partition.ReasonMisfire] != c.skipped {
				t.Errorf("after an outage %v did not run, want %d", n, c.skipped)
			}
			r = newRig(t, partition.Config{})
			r.mustPut(c.job)
			r.pause("a", true)
			r.advance(68 * time.Second)
			r.bring(keyOf("a"))
			if _, err := r.m.SetPaused(r.now, keyOf("a"), carillon.PauseOptions{CatchUp: true}); err != nil {
				t.Fatal(err)
			}
			r.flush()
			r.start()
			if got := r.workOff(); !slices.Equal(got, c.want) {
				t.Errorf("after a pause it ran %v, want %v", got, c.want)
			}
			if n := r.passedOver("a"); n[partition.ReasonMisfire] != c.skipped || len(n) > 1 {
				t.Errorf("after a pause %v did not run, want %d", n, c.skipped)
			}
			accounted(t, r, "a", 10*time.Second, 6)
		})
	}
}

// TestTheEndOfALifeLeavesNoTimeUnexplained ends lives while nothing can run.
func TestTheEndOfALifeLeavesNoTimeUnexplained(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapSerial, carillon.OverlapSkip} {
		r := newRig(t, partition.Config{})
		j := carillon.Job{Name: "staged", Schedule: "@every 10s", TTL: carillon.In(time.Minute), Overlap: overlap, Data: long}
		r.mustPut(j)
		j.Name, j.Paused = "paused", true
		r.mustPut(j)
		r.mustPut(carillon.Job{Name: "once", TTL: carillon.In(time.Minute), Paused: true})
		r.advance(12 * time.Second)
		r.m.Window.Stage(queueQ, r.now, 10)
		r.advance(60 * time.Second)
		if jobs := r.jobs(); len(jobs) != 0 {
			t.Fatalf("left behind: %+v", jobs)
		}
		for name, want := range map[string]string{"staged": partition.ReasonExpired, "paused": partition.ReasonPaused} {
			accounted(t, r, name, 10*time.Second, 6)
			if n := r.passedOver(name); n[want] != 6 {
				t.Errorf("%s: %v", name, n)
			}
		}
		if n := r.passedOver("once"); n[partition.ReasonExpired] != 1 {
			t.Errorf("once: %v", n)
		}
	}
}

// TestSpreadIsTheSameEverywhere compares when runs are due on two nodes, one of which restarts all the time,
// and checks the jitter against each job's interval.
func TestSpreadIsTheSameEverywhere(t *testing.T) {
	var seen [2]map[string]int64
	for i := range seen {
		seen[i] = map[string]int64{}
		r := newRig(t, partition.Config{})
		for k := range 5 {
			j := carillon.Job{Name: fmt.Sprint(k), Schedule: "@every 10s", Jitter: 10 * time.Second}
			if k%2 == 0 { // the next time can be nearer than the jitter
				j.Schedule, j.Jitter, j.Data = "*/7 * * * * *", 20*time.Second, long
			}
			r.mustPut(j)
		}
		for range 200 {
			r.advance(500 * time.Millisecond)
			for _, d := range r.deliver(10) {
				seen[i][d.Run.ID] = d.Run.Due.Sub(d.Run.Scheduled).Nanoseconds()
				if by := d.Run.Due.Sub(d.Run.Scheduled); by < 0 || by >= 10*time.Second {
					t.Fatalf("%s moves by %v", d.Run.Job, by)
				}
				if late := r.now - d.Run.Due.UnixNano(); late > int64(500*time.Millisecond) {
					t.Fatalf("%s is late by %v", d.Run.Job, time.Duration(late))
				}
				r.succeed(d)
			}
			if r.flush(); i == 1 {
				r.start()
			}
		}
	}
	if len(seen[0]) < 5*9 || fmt.Sprint(seen[0]) != fmt.Sprint(seen[1]) {
		t.Fatalf("%d runs moved otherwise than %d", len(seen[0]), len(seen[1]))
	}
	moved := 0
	for _, by := range seen[0] {
		if by > 0 {
			moved++
		}
	}
	if moved < len(seen[0])/2 {
		t.Fatalf("only %d of %d moved", moved, len(seen[0]))
	}
}

func TestDeadRunsAreKeptAsLongAsConfigured(t *testing.T) {
	r := newRig(t, partition.Config{DeadRetention: time.Hour, HistoryMost: 1})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyConstant, OnExhausted: carillon.ExhaustedDead}.WithMaxRetries(0),
		History: carillon.History{Runs: 1, Keep: time.Minute}})
	r.failRun(r.deliver(1)[0])
	r.flush()
	for i, left := range []int{1, 1, 0} {
		r.m.History.Sweep(r.now)
		r.flush()
		if n := len(r.history("a")); n != left {
			t.Fatalf("%d: %d left", i, n)
		}
		r.advance(30*time.Minute + 1)
	}
}

// TestABacklogIsWorkedOffByClass starts with more due than fits into memory. The highest priority goes first.
func TestABacklogIsWorkedOffByClass(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const window = 32
		r := newRig(rt, partition.Config{WindowJobs: window, WindowBytes: 64 << 10})
		classes := []carillon.Priority{carillon.PriorityCritical, carillon.PriorityHigh, carillon.PriorityNormal, carillon.PriorityLow}
		n := rapid.IntRange(window, 10*window).Draw(rt, "jobs")
		for i := range n {
			j := carillon.Job{Name: fmt.Sprint(i), Priority: rapid.SampledFrom(classes).Draw(rt, "priority"), Lease: time.Hour,
				Due: carillon.In(time.Minute + time.Duration(rapid.IntRange(0, 100).Draw(rt, "due"))*time.Millisecond)}
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

// rank returns the priority of the job that an attempt belongs to.
func rank(r *rig, d partition.Delivery) uint8 {
	j, err := r.m.Records.Job(keyOf(d.Run.Job))
	if err != nil {
		r.t.Fatal(err)
	}
	return j.Priority.Rank()
}

// TestNoClassStarvesInABacklog feeds critical runs without end while a run of low priority waits in the
// store.
func TestNoClassStarvesInABacklog(t *testing.T) {
	const window = 32
	r := newRig(t, partition.Config{WindowJobs: window})
	for i := range 20 * window {
		r.mustPut(carillon.Job{Name: fmt.Sprintf("critical/%d", i), Priority: carillon.PriorityCritical, Due: carillon.In(time.Minute)})
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

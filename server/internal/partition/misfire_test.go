package partition_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
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
		"all": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll}},
			[]int{10, 20, 30, 40, 50, 60}, 0},
		"limit": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 2}}, []int{50, 60}, 4},
		"window": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Window: 30 * time.Second}},
			[]int{40, 50, 60}, 3},
		"both": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 2,
			Window: 30 * time.Second}}, []int{50, 60}, 4},
		"latest": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireLatest}}, []int{60}, 5},
		"latest, too old": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireLatest,
			Window: 7 * time.Second}}, nil, 6},
		"skip": {carillon.Job{Misfire: carillon.Misfire{Rule: carillon.MisfireSkip}}, nil, 6},
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
			if _, err := r.m.Jobs.SetPaused(r.now, keyOf("a"), carillon.PauseOptions{CatchUp: true}); err != nil {
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
		j := carillon.Job{Name: "staged", Schedule: "@every 10s", TTL: carillon.In(time.Minute),
			Overlap: overlap, Data: long}
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
		for name, want := range map[string]string{"staged": partition.ReasonExpired,
			"paused": partition.ReasonPaused} {
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

// rank returns the priority of the job that an attempt belongs to.
func rank(r *rig, d delivery.Delivery) uint8 {
	j, err := r.m.Records.Job(keyOf(d.Run.Job))
	if err != nil {
		r.t.Fatal(err)
	}
	return j.Priority.Rank()
}

// TestSpreadMovesWhenATimeCounts checks a time that has come but whose jitter has not passed. It is neither
// skipped because of an overlap that has ended nor lost to a pause that has ended.
func TestSpreadMovesWhenATimeCounts(t *testing.T) {
	tried := 0
	for i := range 40 {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: fmt.Sprint(i), Schedule: "@every 1h", Jitter: time.Hour,
			Overlap: carillon.OverlapSkip})
		r.advance(2*time.Hour - 1)
		first := r.deliver(1)
		if len(first) != 1 || first[0].Run.Due.UnixNano() > epoch+int64(2*time.Hour) {
			continue
		}
		r.advance(2) // the second time has come
		if i%2 == 0 {
			r.pause(fmt.Sprint(i), true)
			r.pause(fmt.Sprint(i), false)
		}
		r.succeed(first[0])
		r.flush()
		if len(r.deliver(1)) != 0 {
			continue // with jitter its run is due, too
		}
		tried++
		r.advance(time.Hour)
		if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Scheduled.UnixNano() != epoch+int64(2*time.Hour) {
			t.Fatalf("%d: the second time does not run: %+v %+v", i, ds, r.history(fmt.Sprint(i)))
		}
	}
	if tried < 20 {
		t.Fatalf("only %d of 40 tried", tried)
	}
}

func TestMisfireRules(t *testing.T) {
	for name, c := range map[string]struct {
		misfire carillon.MisfireRule
		want    []int // scheduled, in units of 10 s after the put
	}{
		"latest": {carillon.MisfireLatest, []int{6}},
		"all":    {carillon.MisfireAll, []int{1, 2, 3, 4, 5, 6}},
		"skip":   {carillon.MisfireSkip, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, partition.Config{})
			r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s", Misfire: carillon.Misfire{Rule: c.misfire}})
			r.now += int64(68 * time.Second) // everything is down
			r.start()
			r.flush()
			var got []int
			for ds := r.deliver(1); len(ds) == 1; ds = r.deliver(1) {
				got = append(got, int((ds[0].Run.Scheduled.UnixNano()-epoch)/int64(10*time.Second)))
				r.succeed(ds[0])
				r.flush()
			}
			if len(got) != len(c.want) {
				t.Fatalf("ran %v, want %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Fatalf("ran %v, want %v", got, c.want)
				}
			}
			r.flush()
			accounted(t, r, "a", 10*time.Second, 6)
		})
	}
}

// accounted checks that each of the first n scheduled times of an interval job either has run or has a record
// that says why not, but not both.
func accounted(t tb, r *rig, name string, every time.Duration, n int) {
	t.Helper()
	seen := map[int64]int{}
	for _, h := range r.history(name) {
		if h.ID.Cause != carillon.CauseSchedule {
			continue
		}
		if h.Status != carillon.RunSkipped || h.Skipped == 0 {
			seen[h.ID.Scheduled]++
			continue
		}
		count := uint64(0)
		for at := h.From; at <= h.ID.Scheduled; at += int64(every) {
			seen[at]++
			count++
		}
		if count != h.Skipped {
			t.Fatalf("a record of %d skipped times spans %d", h.Skipped, count)
		}
	}
	for i := 1; i <= n; i++ {
		at := epoch + int64(i)*int64(every)
		if seen[at] != 1 {
			t.Fatalf("scheduled time %d of %s is accounted for %d times", i, name, seen[at])
		}
		delete(seen, at)
	}
	if len(seen) != 0 {
		t.Fatalf("records of times that were never scheduled: %v", seen)
	}
}

func TestAPutInThePastFiresOnceAndMissesNothing(t *testing.T) {
	for _, misfire := range []carillon.MisfireRule{carillon.MisfireLatest, carillon.MisfireAll,
		carillon.MisfireSkip} {
		r := newRig(t, partition.Config{})
		r.mustPut(carillon.Job{Name: "a", Schedule: "@every 10s",
			Due: carillon.At(time.Unix(0,
				epoch).Add(-time.Minute - 3*time.Second)), Misfire: carillon.Misfire{Rule: misfire, Window: time.Second}})
		ds := r.deliver(5)
		if len(ds) != 1 {
			t.Fatalf("%v: %d runs at once", misfire, len(ds))
		}
		r.succeed(ds[0])
		r.flush()
		if h := r.history("a"); len(h) != 1 {
			t.Fatalf("%v: history %+v", misfire, h)
		}
		r.advance(7*time.Second - 1)
		if ds := r.deliver(5); len(ds) != 0 {
			t.Fatalf("%v: out of phase", misfire)
		}
		r.advance(1)
		if ds := r.deliver(5); len(ds) != 1 {
			t.Fatalf("%v: does not keep the phase of its due time", misfire)
		}
	}
}

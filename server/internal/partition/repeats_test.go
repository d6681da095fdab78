package partition_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestRepeatsCountRunsThatHadAnAttempt brings a job to its end through delays, skips and pauses, and counts
// the runs that consumers had.
func TestRepeatsCountRunsThatHadAnAttempt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(rt, partition.Config{})
		repeats := rapid.IntRange(1, 5).Draw(rt, "repeats")
		r.mustPut(carillon.Job{
			Name: "a", Schedule: "@every 10s", Repeats: uint64(repeats), FailurePolicy: carillon.Drop(),
			Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap")),
			Misfire: carillon.Misfire{Rule: carillon.MisfireRule(rapid.IntRange(0, 2).Draw(rt, "misfire"))},
			History: carillon.History{Runs: 10_000},
		})
		var had []delivery.Delivery
		r.settleAll(rt, &had)
		for range 100 {
			if len(r.jobs()) == 0 {
				break
			}
			r.bring(keyA)
			if _, err := r.m.Jobs.SetPaused(r.now, keyA, carillon.PauseOptions{}); err != nil {
				rt.Fatal(err)
			}
			r.advance(10 * time.Second)
			r.recall()
			had = append(had, r.deliver(10)...)
			r.succeedAll(&had)
		}
		if left := r.jobs(); len(left) > 0 {
			rt.Fatalf("it does not end: %+v", left[0].State)
		}
		ids, begun := map[string]bool{}, 0
		for i := range r.attempts {
			ids[r.attempts[i].Run.ID] = true
		}
		for _, h := range r.history("a") {
			if h.Skipped == 0 && h.Attempt > 0 {
				begun++
			}
		}
		if len(ids) != repeats || begun != repeats {
			rt.Fatalf("of %d repeats %d runs were handed out, and %d are in the history", repeats, len(ids), begun)
		}
	})
}

// settleAll does some of everything that can happen to the runs of the job "a".
func (r *rig) settleAll(rt *rapid.T, had *[]delivery.Delivery) {
	rt.Repeat(map[string]func(*rapid.T){
		"advance": func(rt *rapid.T) {
			r.advance(time.Duration(rapid.IntRange(1, 25).Draw(rt, "s")) * time.Second)
		},
		"deliver": func(*rapid.T) { *had = append(*had, r.deliver(1)...); r.flush() },
		"succeed": func(*rapid.T) { r.succeedAll(had) },
		"stage":   func(*rapid.T) { r.m.Window.Stage(queueQ, r.now, 10); r.flush() },
		"recall":  func(*rapid.T) { r.recall(); r.flush() },
		"pause": func(rt *rapid.T) {
			r.whole(keyA)
			// it may have ended
			_, _ = r.m.Jobs.SetPaused(r.now, keyA, carillon.PauseOptions{Paused: rapid.Bool().Draw(rt, "paused")})
			r.flush()
		},
		"skip": func(*rapid.T) { r.whole(keyA); _, _ = r.m.Jobs.Skip(r.now, keyA); r.flush() },
	})
}

// succeedAll reports success for the attempts that consumers have.
func (r *rig) succeedAll(had *[]delivery.Delivery) {
	for _, d := range *had {
		r.succeed(d)
	}
	*had = nil
	r.flush()
}

func TestRepeats(t *testing.T) {
	for _, j := range []carillon.Job{
		{Name: "a", Schedule: "@every 1s", Repeats: 4},
		{Name: "a", Schedule: "R4/PT3S"},
	} {
		r := newRig(t, partition.Config{})
		r.mustPut(j)
		n := 0
		for range 40 {
			r.advance(time.Second)
			for _, d := range r.deliver(1) {
				n++
				r.succeed(d)
				r.flush()
			}
		}
		if n != 4 || len(r.jobs()) != 0 {
			t.Fatalf("%s: %d runs, %d jobs left", j.Schedule, n, len(r.jobs()))
		}
	}
}

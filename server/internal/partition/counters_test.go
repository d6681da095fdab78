package partition_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// counted is what the store's records say of a job's runs: the complete history, and the unfinished runs.
type counted struct {
	carillon.Counters
	unfinished uint64 // runs that have had an attempt
	attempts   uint64
}

// recount counts a job's runs from their records.
func (r *rig) recount(job *store.Record) (c counted) {
	for _, h := range r.history(job.Name) {
		if h.ID.UID != job.State.UID {
			continue
		}
		c.attempts += uint64(h.Attempt)
		if h.Attempt > 0 {
			c.Fired++
		}
		switch h.Status {
		case carillon.RunSucceeded:
			c.Succeeded++
		case carillon.RunFailed:
			c.Dropped++
		case carillon.RunDead:
			c.Dead++
		case carillon.RunSkipped:
			c.Skipped += max(1, h.Skipped)
		case carillon.RunCancelled:
			c.Cancelled += uint64(min(h.Attempt, 1))
		}
	}
	unfinished := []store.Record{*job}
	for seq := range job.State.Triggers {
		unfinished = append(unfinished, r.read([]store.Ref{{Key: job.Key, Seq: seq + 1}})...)
	}
	for _, u := range unfinished {
		if n := u.State.Run.Attempt; u.Exists && u.State.Run.Live && n > 0 {
			c.Fired++
			c.unfinished++
			c.attempts += uint64(n)
		}
		if u.Seq != 0 && u.State.Counters != (carillon.Counters{}) {
			r.t.Fatalf("a run counts for itself: %+v", u.State)
		}
	}
	return c
}

// wantCounted compares the counters of every job in the store with its records.
func (r *rig) wantCounted() {
	for _, job := range r.jobs() {
		if job.State.Triggers > 1<<40 {
			continue // a redrive brought it back: its history includes that of its first life
		}
		want, have := r.recount(&job), job.State.Counters
		if have.Fired != want.Fired || have.Succeeded != want.Succeeded || have.Dropped != want.Dropped ||
			have.Dead != want.Dead ||
			have.Skipped != want.Skipped || have.Cancelled != want.Cancelled {
			r.t.Fatalf("%s counts %+v, and its records say %+v", job.Name, have, want)
		}
		if ended := have.Succeeded + have.Dropped + have.Dead + have.Cancelled; have.Fired != ended+
			want.unfinished {
			r.t.Fatalf("%s has fired %d, %d have ended and %d are unfinished", job.Name, have.Fired,
				ended, want.unfinished)
		}
		if have.Late > have.Fired || have.Fired+have.Retried > want.attempts || have.Failed > want.attempts {
			r.t.Fatalf("%s counts %+v, of %d attempts", job.Name, have, want.attempts)
		}
	}
}

// TestCountersAgreeWithTheRecords sends jobs through edits, moves, redrives and crashes, and counts again
// after each batch.
func TestCountersAgreeWithTheRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &workshop{content: map[string]map[uint64]uint64{}, world: &world{
			rig: newRig(rt, partition.Config{WindowJobs: rapid.SampledFrom([]int{4, 64}).Draw(rt, "window")}), rt: rt,
			done: map[string]bool{}, tokens: map[string]int{}, oneShots: map[string]string{},
		}}
		w.landed = w.wantCounted
		rt.Repeat(map[string]func(*rapid.T){
			"put": w.Put, "delete": w.Delete, "trigger": w.Trigger, "pause": w.Pause, "advance": w.Advance,
			"deliver": w.Deliver, "deliver first": w.DeliverFirst, "report": w.Report, "stage": w.Stage,
			"crash": w.Crash, "beat": w.Beat, "lose": w.Lose, "undeliver": w.Undeliver, "cancel": w.Cancel,
			"redrive": w.Redrive, "reschedule": w.Reschedule,
		})
		w.commit()
	})
}

// Reschedule reports a later time for a run that a consumer has.
func (w *workshop) Reschedule(rt *rapid.T) {
	if len(w.inForce) == 0 {
		return
	}
	d := rapid.SampledFrom(w.inForce).Draw(rt, "attempt")
	at := time.Unix(0, w.now).Add(time.Duration(rapid.IntRange(0, 9).Draw(rt, "later")) * time.Second)
	w.report(d, carillon.Result{Outcome: carillon.OutcomeReschedule, At: at})
	w.maybeCommit(rt)
}

// TestCountersOfRunsBesideSurviveAKill hands out pending runs and kills the node before they are stored, with
// batches of their job in between.
func TestCountersOfRunsBesideSurviveAKill(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.landed = r.wantCounted
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1s", Overlap: carillon.OverlapAllow,
		History: carillon.History{Runs: 1000}})
	for range 5 {
		for range 5 {
			r.advance(time.Second)
			r.deliver(10)
			r.flush()
		}
		r.start()
	}
	for range 60 {
		r.advance(time.Second)
		for _, d := range r.deliver(100) {
			r.succeed(d)
		}
	}
	r.flush()
	r.whole(keyA)
	if j, err := r.m.Records.Job(keyA); err != nil || j.Status.Counters.Fired < 25 {
		t.Fatalf("%+v %v", j.Status.Counters, err)
	}
}

// TestAnExpiredRunThatWasTriedIsNotSkipped ends the life of a job while its run waits for a consumer to retry
// it.
func TestAnExpiredRunThatWasTriedIsNotSkipped(t *testing.T) {
	for policy, want := range map[carillon.OnExhausted]carillon.RunStatus{
		carillon.ExhaustedDead: carillon.RunDead, carillon.ExhaustedDrop: carillon.RunFailed,
	} {
		r := newRig(t, partition.Config{})
		r.landed = r.wantCounted
		p := carillon.Constant(time.Second)
		p.OnExhausted = policy
		r.mustPut(carillon.Job{Name: "a", TTL: carillon.In(time.Minute), FailurePolicy: p})
		r.failRun(r.deliver(1)[0])
		r.advance(2 * time.Second)
		r.m.Window.Stage(queueQ, r.now, 1)
		r.advance(2 * time.Minute)
		h := r.history("a")
		if len(h) != 1 || h[0].Status != want || h[0].Reason != partition.ReasonExpired ||
			h[0].Attempt != 1 || len(h[0].Errors) != 1 {
			t.Errorf("%v: the history is %+v", policy, h)
		}
	}
}

// TestATimeInThePastIsLateFromThePutOn, for a new job and for one that is put again.
func TestATimeInThePastIsLateFromThePutOn(t *testing.T) {
	for name, c := range map[string]struct {
		before []carillon.Job // put first
		after  time.Duration  // from the last put to the attempt
		late   uint64
		by     time.Duration
	}{
		"a new job, at once": {nil, 0, 0, 0},
		"a new job, late":    {nil, 3 * time.Second, 1, 3 * time.Second},
		"a job that is put again": {[]carillon.Job{{Due: carillon.In(time.Hour)}}, 500 * time.Millisecond, 0,
			500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var fired []delivery.Fired
			r := newRig(t, partition.Config{Events: partition.Events{
				Fired: func(f delivery.Fired) { fired = append(fired, f) }}})
			for _, j := range c.before {
				j.Name = "a"
				r.mustPut(j)
				r.advance(time.Minute)
			}
			r.mustPut(carillon.Job{Name: "a", Due: carillon.At(time.Unix(0, epoch).Add(-time.Hour))})
			r.now += int64(c.after)
			if ds := r.deliver(1); len(ds) != 1 || len(fired) != 1 {
				t.Fatalf("%d attempts", len(ds))
			}
			if fired[0].Lateness != c.by {
				t.Errorf("%v late, want %v", fired[0].Lateness, c.by)
			}
			if j, err := r.m.Records.Job(keyA); err != nil || j.Status.Counters.Late != c.late {
				t.Errorf("counted %+v, want %d late; %v", j.Status.Counters, c.late, err)
			}
		})
	}
}

// TestALatePutDoesNotTakeBackWhatWasNotCounted: the stream of an attempt ends after its job was put again.
func TestALatePutDoesNotTakeBackWhatWasNotCounted(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := daprJob(carillon.Job{Name: "a", Due: carillon.In(time.Hour)})
	r.mustPut(j)
	r.now += 2 * int64(time.Hour) // put again long after its time
	j.Due, j.Note = carillon.At(time.Unix(0, epoch).Add(30*time.Minute)), "again"
	r.mustPut(j)
	r.sendOne()
	r.now += 5e9
	key := keyOf(daprName("a"))
	if _, err := r.m.Jobs.Patch(r.now, 0, key, carillon.Patch{Fields: []string{"labels"},
		Job: carillon.Job{Labels: map[string]string{"a": "b"}}}, ""); err != nil {
		t.Fatal(err)
	}
	r.flush()
	r.own() // the owner was killed, and with it the stream
	r.bring(key)
	r.flush()
	if j, err := r.m.Records.Job(key); err != nil || j.Status.Counters.Late > 1 {
		t.Errorf("counted %+v, %v", j.Status.Counters, err)
	}
}

// TestAnAttemptThatIsTakenBackLeavesNoCount puts a job with other data while an attempt that began late has
// not been handed out. What the put makes of the time it was due does not matter any more.
func TestAnAttemptThatIsTakenBackLeavesNoCount(t *testing.T) {
	for _, later := range []time.Duration{0, 1, 5 * time.Second} {
		r := newRig(t, partition.Config{})
		r.landed = r.wantCounted
		r.mustPut(carillon.Job{Name: "a", Due: carillon.At(time.Unix(0, epoch))})
		r.flush()
		r.now += int64(5 * time.Second)
		r.step()
		r.m.Deliver(nil, r.now, queueQ, 1, true, nil)
		r.now += int64(later)
		r.mustPut(carillon.Job{Name: "a", Due: carillon.At(time.Unix(0, epoch)),
			Data: carillon.Data{Bytes: []byte("b")}})
		r.flush()
	}
}

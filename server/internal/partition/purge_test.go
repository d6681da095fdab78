package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// purge purges queueQ as the engine does: of all records of the store.
func (r *rig) purge(due int64, dry bool) (n int) {
	r.t.Helper()
	var refs []store.Ref
	for _, j := range r.jobs() {
		for seq := range j.State.Triggers + 1 {
			refs = append(refs, store.Ref{Key: j.Key, Seq: seq})
		}
	}
	r.m.Load(r.read(refs), r.now)
	r.m.Tick(r.now)
	for _, ref := range refs {
		if r.m.Jobs.Purge(r.now, ref, queueQ, due, dry) {
			n++
		}
	}
	r.m.Window.Settle(refs)
	r.flush()
	return n
}

// TestAPurgeCancelsWhatWaits, wherever it does: in memory, staged, as a pending run, and redelivered after a
// failure. What is in force, of another queue, or to be tried later stays.
func TestAPurgeCancelsWhatWaits(t *testing.T) {
	r := newRig(t, partition.Config{})
	at := carillon.At(time.Unix(0, r.now).UTC())
	r.mustPut(carillon.Job{Name: "force", Lease: time.Hour})
	r.mustPut(carillon.Job{Name: "later", FailurePolicy: carillon.Constant(time.Hour)})
	for _, d := range r.deliver(2) {
		if d.Run.Job == "later" {
			r.failRun(d)
		}
	}
	r.mustPut(carillon.Job{Name: "staged"})
	r.m.Window.Stage(queueQ, r.now, 10)
	r.flush()
	r.mustPut(carillon.Job{Name: "once"})
	r.mustPut(carillon.Job{Name: "hourly", Schedule: "@hourly", Due: at})
	r.mustPut(carillon.Job{Name: "other", Target: carillon.WorkerQueue("other")})
	r.mustPut(carillon.Job{Name: "future", Due: carillon.In(time.Hour)})
	r.trigger("hourly")
	r.flush()
	if n := r.purge(r.now-1, false); n != 0 {
		t.Fatalf("%d were due before anything was", n)
	}
	if n := r.purge(r.now, true); n != 4 || len(r.history("once")) > 0 {
		t.Fatalf("a dry run counts %d, and purges %d", n, len(r.history("once")))
	}
	if n := r.purge(r.now, false); n != 4 {
		t.Fatalf("%d are purged", n)
	}
	if n := r.purge(r.now, false); n != 0 {
		t.Fatalf("%d are purged again", n)
	}
	for name, runs := range map[string]int{"staged": 1, "once": 1, "hourly": 2, "force": 0, "later": 0, "other": 0} {
		history := r.history(name)
		if len(history) != runs {
			t.Fatalf("%d runs of %s have ended", len(history), name)
		}
		for _, run := range history {
			if run.Status != carillon.RunCancelled || run.Reason != partition.ReasonPurged {
				t.Errorf("%s: %v, %s", name, run.Status, run.Reason)
			}
		}
	}
	left := map[string]bool{}
	for _, j := range r.jobs() {
		left[j.Name] = true
	}
	if len(left) != 5 || left["once"] || left["staged"] {
		t.Errorf("%v are left", left)
	}
	if len(r.cancels) > 0 {
		t.Errorf("consumers are told to stop %v", r.cancels)
	}
	r.recall()
	if ds := r.deliver(10); len(ds) > 0 {
		t.Fatalf("%s is handed out", ds[0].Run.Job)
	}
	if v := r.succeed(r.attempts[0]); v != partition.Accepted {
		t.Errorf("the result of what was in force: %v", v)
	}
	r.advance(time.Hour)
	again := map[string]bool{}
	for _, d := range r.deliver(10) {
		again[d.Run.Job] = true
	}
	if len(again) != 3 || !again["later"] || !again["hourly"] || !again["future"] {
		t.Errorf("an hour later: %v", again)
	}
}

// TestAPurgeFindsWhatWasDueInTheStoreAlone: its times have come, and nothing has brought it into memory.
func TestAPurgeFindsWhatWasDueInTheStoreAlone(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "once", Due: carillon.In(time.Minute)})
	r.mustPut(carillon.Job{Name: "hourly", Schedule: "@every 1h", Due: carillon.In(time.Minute)})
	r.restart()
	r.own() // without a step: nothing is read
	r.now += int64(2 * time.Minute)
	if n := r.purge(r.now, false); n != 2 {
		t.Fatalf("%d are purged", n)
	}
	if ds := r.deliver(10); len(ds) > 0 {
		t.Errorf("%s is handed out", ds[0].Run.Job)
	}
}

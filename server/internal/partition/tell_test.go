package partition_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func TestEachChangeHasItsEventInItsBatch(t *testing.T) {
	r := newRig(t, partition.Config{})
	from := r.watch()
	check := func(what string, do func(), want ...carillon.EventType) store.Event {
		t.Helper()
		do()
		if got := r.events(from); len(got) != 0 {
			t.Fatalf("%s: %v before its batch", what, got)
		}
		r.flush()
		got := r.wantEvents(from, want...)
		from = partition.EventNumber(last(r.eventRecords(store.MetaQuery{Kind: store.KindEvents})).Key)
		return got[len(got)-1]
	}
	put := func(j carillon.Job) func() {
		return func() {
			if _, err := r.put(j); err != nil {
				t.Fatal(err)
			}
		}
	}
	retries := uint32(1)
	j := carillon.Job{Name: "a", Due: carillon.In(time.Minute), FailurePolicy: carillon.FailurePolicy{
		Kind: carillon.PolicyConstant, Interval: time.Second, MaxRetries: &retries}}
	check("put", put(j), carillon.EventJobCreated)
	j.Labels = map[string]string{"l": "1"}
	if e := check("edit", put(j), carillon.EventJobChanged); e.Generation != 2 || e.Key != keyOf("a") {
		t.Errorf("edit: %+v", e)
	}
	paused := func(on bool) func() {
		return func() {
			r.bring(keyOf("a"))
			if _, err := r.m.Jobs.SetPaused(r.now, keyOf("a"), carillon.PauseOptions{Paused: on}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("pause", paused(true), carillon.EventJobPaused)
	check("resume", paused(false), carillon.EventJobResumed)
	r.advance(time.Minute)
	first := r.deliver(1)[0]
	e := check("failure", func() { r.failRun(first) }, carillon.EventRunRetrying)
	if e.Run.String() != first.Run.ID || e.RetryAt != r.now+int64(time.Second) || e.Attempt != 1 || e.Error != "no" {
		t.Errorf("failure: %+v", e)
	}
	r.advance(10 * time.Second)
	second := r.deliver(1)[0]
	e = check("last failure", func() { r.failRun(second) }, carillon.EventRunDead)
	if e.Attempt != 2 || e.Error != "no" || e.RetryAt != 0 || e.Run.String() != first.Run.ID {
		t.Errorf("last failure: %+v", e)
	}
	check("another put", put(carillon.Job{Name: "b"}), carillon.EventJobCreated)
	b := r.deliver(1)[0]
	check("success", func() { r.succeed(b) }, carillon.EventRunSucceeded)
	check("recurring", put(carillon.Job{Name: "c", Schedule: "@every 1h"}), carillon.EventJobCreated)
	check("skip", func() {
		r.bring(keyOf("c"))
		if _, err := r.m.Jobs.Skip(r.now, keyOf("c")); err != nil {
			t.Fatal(err)
		}
	}, carillon.EventRunSkipped)
	check("trigger and delete", func() {
		r.trigger("c")
		if _, err := r.m.Jobs.Delete(r.now, keyOf("c")); err != nil {
			t.Fatal(err)
		}
	}, carillon.EventRunCancelled, carillon.EventJobDeleted)
}

func TestAPauseByAFailureSaysSo(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1s"})
	from := r.watch()
	r.advance(time.Second)
	d := r.deliver(1)[0]
	r.reportAs(d.Run.Token, &delivery.Report{Result: carillon.Result{Outcome: carillon.OutcomeFailure,
		Message: "bad card", Permanent: true}, PauseJob: true})
	r.flush()
	got := r.wantEvents(from, carillon.EventRunFailed, carillon.EventJobPaused)
	if got[1].Reason != "failure" || got[1].Error != "bad card" {
		t.Errorf("paused: %+v", got[1])
	}
}

// TestALateRunIsToldOnce when its attempt is durable, or with its end.
func TestALateRunIsToldOnce(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Due: carillon.In(time.Second)})
	r.mustPut(carillon.Job{Name: "b", Due: carillon.In(time.Second)})
	from := r.watch()
	r.advance(5 * time.Second)
	ds := r.deliver(2)
	r.succeed(ds[0])
	r.flush()
	got := r.wantEvents(from, carillon.EventRunLate, carillon.EventRunSucceeded)
	if got[0].Late != int64(4*time.Second) {
		t.Errorf("%+v", got[0])
	}
	r.advance(2 * time.Second) // the attempt is old enough to be made durable
	r.wantEvents(from, carillon.EventRunLate, carillon.EventRunSucceeded, carillon.EventRunLate)
	r.restart()
	r.succeed(ds[1])
	r.flush()
	r.wantEvents(from, carillon.EventRunLate, carillon.EventRunSucceeded, carillon.EventRunLate,
		carillon.EventRunSucceeded)
}

package partition_test

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

func (r *rig) reschedule(d delivery.Delivery, at int64) partition.Verdict {
	return r.report(d, carillon.Result{Outcome: carillon.OutcomeReschedule, At: time.Unix(0, at)})
}

func TestARescheduledRunGoesOnWithFreshRetries(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 24h", Lease: time.Hour,
		FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(1)})
	r.advance(24 * time.Hour)
	d := r.deliver(1)[0]
	id := d.Run.ID
	r.failRun(d)
	r.advance(time.Second)
	d = r.deliver(1)[0] // the last one that the policy allows
	at := r.now + int64(10*time.Minute)
	for range 2 {
		if v := r.reschedule(d, at); v != partition.Accepted {
			t.Fatalf("reschedule: %v", v)
		}
		r.flush()
		r.start()
	}
	if v := r.failRun(d); v != partition.Stale {
		t.Fatalf("a failure of the rescheduled attempt: %v", v)
	}
	r.advance(10*time.Minute - 1)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("early")
	}
	r.advance(1)
	old := d
	for attempt := 3; attempt <= 4; attempt++ { // the policy allows one retry again
		ds := r.deliver(1)
		if len(ds) != 1 || ds[0].Run.Attempt != attempt || ds[0].Run.ID != id {
			t.Fatalf("attempt %d: %+v", attempt, ds)
		}
		d = ds[0]
		if v := r.reschedule(old, at); v != partition.Stale {
			t.Fatalf("the old attempt's word: %v", v)
		}
		r.bring(keyOf("a"))
		j, err := r.m.Records.Job(keyOf("a"))
		want := carillon.Counters{Fired: 1, Retried: uint64(attempt) - 2, Failed: uint64(attempt) - 2}
		if err != nil || j.Status.Counters != want {
			t.Fatalf("counters %+v, want %+v", j.Status.Counters, want)
		}
		r.failRun(d)
		r.flush()
		r.advance(time.Second)
	}
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunFailed || h[0].Attempt != 4 || len(h[0].Errors) != 3 {
		t.Fatalf("history %+v", h)
	}
}

func TestARescheduleIntoThePastIsAtOnce(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	r.reschedule(r.deliver(1)[0], r.now-1)
	r.flush()
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.Attempt != 2 {
		t.Fatalf("got %+v", ds)
	}
}

func TestARescheduleThatCannotBe(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", TTL: carillon.In(time.Minute)})
	d := r.deliver(1)[0]
	nowhen := carillon.Result{Outcome: carillon.OutcomeReschedule}
	for range 2 {
		if v := r.report(d, nowhen); v != partition.Accepted {
			t.Fatalf("without a time: %v", v)
		}
		r.flush()
	}
	r.advance(5 * time.Second)
	d = r.deliver(1)[0]
	if len(r.attempts) != 2 || d.Run.Attempt != 2 {
		t.Fatalf("it is not retried as after a failure: %+v", d.Run)
	}
	for range 2 {
		if v := r.reschedule(d, epoch+int64(time.Minute)+1); v != partition.Accepted {
			t.Fatalf("beyond the end: %v", v)
		}
		r.flush()
	}
	if v := r.failRun(d); v != partition.Stale {
		t.Fatalf("another word on it: %v", v)
	}
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunDead || len(h[0].Errors) != 2 ||
		!strings.Contains(h[0].Errors[0].Message, "at: give an instant") ||
		!strings.Contains(h[0].Errors[1].Message, "end of the job's life") {
		t.Fatalf("history %+v", h)
	}
}

// TestARunThatWasPutOffIsTriedAtTheEndOfItsLife, and not failed for a time that it has not chosen. After that end
// it fails, and says why it was put off.
func TestARunThatWasPutOffIsTriedAtTheEndOfItsLife(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: time.Hour, TTL: carillon.In(time.Minute)})
	putOff := func(d delivery.Delivery) {
		t.Helper()
		if v := r.report(d, carillon.Result{Outcome: carillon.OutcomeReschedule, Message: "its payload is away",
			At: time.Unix(0, r.now).Add(2 * time.Minute)}); v != partition.Accepted {
			t.Fatal(v)
		}
		r.flush()
	}
	putOff(r.deliver(1)[0])
	r.advance(time.Minute)
	d := r.deliver(1)
	if len(d) != 1 || d[0].Run.Attempt != 2 {
		t.Fatalf("at the end of its life: %+v", d)
	}
	r.advance(1)
	putOff(d[0])
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunDead || len(h[0].Errors) != 1 ||
		!strings.Contains(h[0].Errors[0].Message, "its payload is away") {
		t.Fatalf("after it: %+v", h)
	}
}

func TestProgressIsKeptAndExtendsTheLease(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 10 * time.Second, FailurePolicy: carillon.Constant(time.Second)})
	d := r.deliver(1)[0]
	say := func(p carillon.Progress) partition.Verdict {
		return r.report(d, carillon.Result{Outcome: carillon.OutcomeProgress, Progress: p})
	}
	for _, c := range []struct{ given, want float64 }{{-1, 0}, {math.NaN(), 0},
		{math.Inf(1), 100}, {42.5, 42.5}} {
		r.advance(5 * time.Second)
		if v := say(carillon.Progress{Percent: c.given,
			Message: strings.Repeat("ä", carillon.MaxProgressMessage)}); v != partition.Accepted {
			t.Fatalf("%v: %v", c.given, v)
		}
		if r.m.After() > r.durable {
			t.Fatal("the answer waits for the store")
		}
		j, err := r.m.Records.Job(keyOf("a"))
		p := j.Status.Current.Progress
		if err != nil || p == nil || p.Percent != c.want || p.At.UnixNano() != r.now ||
			len(p.Message) != carillon.MaxProgressMessage || !utf8.ValidString(p.Message) {
			t.Fatalf("%v: %+v %v", c.given, p, err)
		}
	}
	r.failRun(d)
	r.flush()
	if v := say(carillon.Progress{}); v != partition.Stale {
		t.Fatalf("of an attempt that has ended: %v", v)
	}
	r.start()
	r.advance(time.Second)
	r.deliver(1)
	if j, _ := r.m.Records.Job(keyOf("a")); j.Status.Current.Progress != nil || j.Status.Current.Attempt != 2 {
		t.Fatalf("the next attempt: %+v", j.Status.Current)
	}
	id, err := store.ParseRunID(d.Run.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.m.Jobs.Cancel(r.now, id)
	r.flush()
	if v := say(carillon.Progress{}); v != partition.Stale {
		t.Fatalf("of a run that has ended: %v", v)
	}
}

func TestAProgressMessageIsCutBetweenCharacters(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	r.report(r.deliver(1)[0], carillon.Result{Outcome: carillon.OutcomeProgress,
		Progress: carillon.Progress{Message: "x" + strings.Repeat("ä", carillon.MaxProgressMessage)}})
	j, err := r.m.Records.Job(keyOf("a"))
	if m := j.Status.Current.Progress.Message; err != nil || len(m) != carillon.MaxProgressMessage-1 ||
		!utf8.ValidString(m) {
		t.Fatalf("%d bytes, %v", len(m), err)
	}
}

package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestGrantsAreKeptAfterTheClockWentBack: the age budget does not wait for a time that is far ahead again.
func TestGrantsAreKeptAfterTheClockWentBack(t *testing.T) {
	r := newRig(t, partition.Config{GrantsKept: 1})
	job := func(name string) carillon.Job {
		return carillon.Job{Name: name, Timeout: time.Hour, Lease: time.Hour,
			Due: carillon.At(time.Unix(0, epoch-int64(2*time.Hour)))}
	}
	r.mustPut(job("before"))
	r.deliver(1)
	r.advance(2 * time.Second)
	r.now -= int64(time.Hour)
	r.mustPut(job("after"))
	if n := len(r.deliver(1)); n != 1 {
		t.Fatalf("%d attempts, want 1", n)
	}
	r.advance(5 * time.Second)
	for _, j := range r.jobs() {
		if j.State.Phase != carillon.PhaseRunning {
			t.Errorf("%s is stored as %v, want running", j.Name, j.State.Phase)
		}
	}
}

// TestAnAttemptIsKeptWhenTheClockHasGoneBack: by a clock that was set back an attempt would seem new until
// the clock is back at its time, and a kill meanwhile would have its run handed out twice.
func TestAnAttemptIsKeptWhenTheClockHasGoneBack(t *testing.T) {
	r := newRig(t, partition.Config{GrantsKept: 3})
	for i := range 3 {
		r.mustPut(carillon.Job{Name: fmt.Sprint(i), Due: carillon.At(time.Unix(0, r.now))})
	}
	if n := len(r.deliver(3)); n != 3 {
		t.Fatalf("%d attempts, want 3", n)
	}
	r.now -= int64(time.Hour)
	r.flush()
	r.start() // it is killed
	r.now += int64(time.Hour)
	if ds := r.deliver(3); len(ds) != 0 {
		t.Errorf("%d attempts, want none: all are in force", len(ds))
	}
	for _, j := range r.jobs() {
		if j.State.Phase != carillon.PhaseRunning {
			t.Errorf("%s is stored as %v, want running", j.Name, j.State.Phase)
		}
	}
}

// TestNoAttemptIsForgottenForEver: others that use up the age budget whenever a long attempt comes up delay
// its write only for a while.
func TestNoAttemptIsForgottenForEver(t *testing.T) {
	r := newRig(t, partition.Config{GrantsKept: 1})
	job := func(name string) carillon.Job {
		return carillon.Job{Name: name, Timeout: time.Hour, Lease: time.Hour, Due: carillon.At(time.Unix(0, r.now))}
	}
	r.mustPut(job("warm"))
	r.mustPut(job("warm2"))
	r.deliver(2)
	r.advance(100 * time.Millisecond)
	r.mustPut(job("long"))
	r.deliver(1)
	r.advance(900 * time.Millisecond)
	var before []delivery.Delivery
	for i := range 12 {
		r.mustPut(job(fmt.Sprint("short", i)))
		now := r.deliver(1)
		r.advance(500 * time.Millisecond)
		for _, d := range before {
			r.succeed(d)
		}
		before = now
		r.advance(500 * time.Millisecond)
	}
	for _, j := range r.jobs() {
		if j.Name == "long" && j.State.Phase != carillon.PhaseRunning {
			t.Errorf("after 12 s it is stored as %v", j.State.Phase)
		}
	}
}

func TestTokensSurviveARestart(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 10 * time.Second})
	d := r.deliver(1)[0]
	r.advance(2 * time.Second) // old enough for its grant to be durable
	r.start()
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("delivered again while its lease lasts")
	}
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("result over a restart: %v", v)
	}
	r.flush()
	if v := r.succeed(d); v != partition.Accepted {
		t.Fatalf("the same result again: %v", v)
	}
	if v := r.failRun(d); v != partition.Stale {
		t.Fatalf("another result of a finished attempt: %v", v)
	}
}

func TestTakeoverGivesABeatOfGrace(t *testing.T) {
	r := newRig(t, partition.Config{TakeoverGrace: 2 * time.Second})
	r.mustPut(carillon.Job{Name: "a", Lease: 8 * time.Second})
	r.deliver(1)
	r.advance(1500 * time.Millisecond)
	r.now = epoch + int64(time.Hour) // the stored lease is long over
	r.start()
	r.advance(4*time.Second - 1)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("taken away before a beat could come")
	}
	r.advance(1)
	if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Attempt != 2 {
		t.Fatalf("got %+v", ds)
	}
}

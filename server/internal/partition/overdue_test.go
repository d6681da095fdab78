package partition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
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

func TestTakeoverGivesABeatOfGrace(t *testing.T) {
	r := newRig(t, partition.Config{})
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

func TestTTL(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 2s", Due: carillon.In(2 * time.Second),
		TTL: carillon.In(5 * time.Second)})
	var at []int64
	for range 20 {
		r.advance(time.Second)
		for _, d := range r.deliver(1) {
			at = append(at, (d.Run.Scheduled.UnixNano()-epoch)/int64(time.Second))
			r.succeed(d)
			r.flush()
		}
	}
	if len(at) != 3 || at[0] != 2 || at[1] != 4 || at[2] != 6 || len(r.jobs()) != 0 {
		t.Fatalf("ran at %v, jobs %v", at, r.jobs())
	}
}

func TestALostLeaseMakesTheLateResultStale(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Lease: 10 * time.Second})
	first := r.deliver(1)[0]
	r.advance(10 * time.Second)
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.Attempt != 2 || ds[0].Run.ID != first.Run.ID ||
		ds[0].Run.Token == first.Run.Token {
		t.Fatalf("got %+v", ds)
	}
	if v := r.succeed(first); v != partition.Stale {
		t.Fatalf("late result: %v", v)
	}
	if v := r.succeed(ds[0]); v != partition.Accepted {
		t.Fatalf("result in force: %v", v)
	}
	if len(r.cancels) != 1 || r.cancels[0].Token != first.Run.Token {
		t.Fatalf("cancels %+v", r.cancels)
	}
}

func TestAJobWhoseZoneVanishesPausesItself(t *testing.T) {
	r := newRig(t, partition.Config{})
	j := carillon.Job{Namespace: carillon.DefaultNamespace, Name: "a", Schedule: "@every 10s",
		TimeZone: "Atlantis/Capital", Target: carillon.WorkerQueue("q")}
	s := store.State{UID: store.NewUID(j.Key(), [8]byte{1}), Generation: 1, Created: epoch,
		Updated: epoch, Priority: 2, Anchor: epoch, Next: epoch + 10e9, Due: epoch + 10e9}
	rec := store.Record{Ref: store.Ref{Key: j.Key()}, Exists: true, State: s, Spec: codec.EncodeSpec(&j)}
	if err := r.shard.Apply(t.Context(), &store.Batch{Puts: []store.Record{rec}}); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.advance(15 * time.Second)
	if ds := r.deliver(5); len(ds) != 0 {
		t.Fatalf("it runs: %+v", ds)
	}
	r.bring(keyOf("a"))
	got, err := r.m.Records.Job(keyOf("a"))
	if err != nil || !got.Paused || !strings.Contains(got.Note, "Atlantis/Capital") ||
		got.Status.Phase != carillon.PhasePaused {
		t.Fatalf("%+v %v", got, err)
	}
}

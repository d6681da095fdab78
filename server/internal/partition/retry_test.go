package partition_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

func TestDefaultOneShotPolicy(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	var gaps []time.Duration
	last := int64(0)
	for i := 1; i <= 5; i++ {
		ds := r.deliver(1)
		if len(ds) != 1 || ds[0].Run.Attempt != i {
			t.Fatalf("attempt %d: %+v", i, ds)
		}
		if last != 0 {
			gaps = append(gaps, time.Duration(r.now-last))
		}
		last = r.now
		r.failRun(ds[0])
		r.flush()
		if at, ok := r.m.NextWake(); ok {
			r.advance(time.Duration(at - r.now))
		}
	}
	want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
	for i := range want {
		if gaps[i] != want[i] {
			t.Fatalf("gaps %v, want %v", gaps, want)
		}
	}
	r.advance(24 * time.Hour)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("a sixth attempt")
	}
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunDead || len(h[0].Errors) != 5 || h[0].Spec == nil {
		t.Fatalf("history %+v", h)
	}
	if len(r.jobs()) != 0 {
		t.Fatal("a dead one-shot stays among the jobs")
	}
}

func TestRetriesGoOnAcrossARestart(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", FailurePolicy: carillon.Constant(30 * time.Second).WithMaxRetries(5)})
	first := r.deliver(1)[0]
	r.failRun(first)
	r.flush()
	r.advance(30 * time.Second)
	second := r.deliver(1)[0]
	r.failRun(second)
	r.flush()
	r.now += int64(10 * time.Second)
	r.start()
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("attempt 3 right after the restart")
	}
	r.advance(20*time.Second - 1)
	if ds := r.deliver(1); len(ds) != 0 {
		t.Fatal("attempt 3 before its time")
	}
	r.advance(1)
	ds := r.deliver(1)
	if len(ds) != 1 || ds[0].Run.Attempt != 3 || ds[0].Run.ID != first.Run.ID {
		t.Fatalf("got %+v", ds)
	}
}

func TestLongErrorIsCutBetweenCharacters(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a"})
	long := strings.Repeat("x", carillon.MaxErrorBytes-1)
	r.report(r.deliver(1)[0], carillon.Result{Outcome: carillon.OutcomeFailure, Message: long + "é and more"})
	r.flush()
	got := r.jobs()[0].State.Run.Errors[0].Message
	if got != long || !utf8.ValidString(got) {
		t.Fatalf("kept %d bytes that end in %q", len(got), got[len(got)-3:])
	}
}

package partition_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// TestADueRunGoesItsWay from its timer over a failure and a restart to its end: never early, never twice at a
// time, under one id, and with what it did in the history.
func TestADueRunGoesItsWay(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Schedule: "@every 1h",
		FailurePolicy: carillon.Constant(time.Minute).WithMaxRetries(1)})
	r.advance(time.Hour - 1)
	if ds := r.deliver(1); len(ds) > 0 {
		t.Fatal("it is early")
	}
	r.advance(1)
	first := r.deliver(2)
	if len(first) != 1 || first[0].Run.Attempt != 1 || len(r.deliver(2)) > 0 {
		t.Fatalf("when it is due %d attempts go out", len(first))
	}
	r.failRun(first[0])
	r.flush()
	r.restart()
	r.advance(time.Minute - 1)
	if ds := r.deliver(1); len(ds) > 0 {
		t.Fatal("its retry is early")
	}
	r.advance(1)
	second := r.deliver(2)
	if len(second) != 1 || second[0].Run.Attempt != 2 || second[0].Run.ID != first[0].Run.ID {
		t.Fatalf("its retry is %+v", second)
	}
	if v := r.failRun(first[0]); v != partition.Stale {
		t.Errorf("another report of the first attempt is %v", v)
	}
	r.failRun(second[0])
	r.flush()
	h := r.history("a")
	if len(h) != 1 || h[0].Status != carillon.RunFailed || h[0].Attempt != 2 || len(h[0].Errors) != 2 {
		t.Errorf("the history is %+v", h)
	}
	r.advance(time.Hour - time.Minute)
	if ds := r.deliver(1); len(ds) != 1 || ds[0].Run.Attempt != 1 || ds[0].Run.ID == first[0].Run.ID {
		t.Errorf("an hour later: %+v", ds)
	}
}

// TestNoMoreRunsGoOutThanThereIsRoom, and slots that are not used are told.
func TestNoMoreRunsGoOutThanThereIsRoom(t *testing.T) {
	r := newRig(t, partition.Config{})
	for i := range 5 {
		r.mustPut(carillon.Job{Name: fmt.Sprint(i)})
	}
	r.step()
	for _, c := range []struct {
		q              delivery.Queue
		n, want, spare int
	}{
		{queueNamed("other"), 3, 0, 3}, {queueQ, 0, 0, 0},
		{queueQ, 2, 2, 0}, {queueQ, 4, 3, 1}, {queueQ, 1, 0, 1},
	} {
		if ds, rest := r.m.Deliver(nil, r.now, c.q, c.n, false, nil); len(ds) != c.want || rest.Unused != c.spare {
			t.Errorf("with %d slots %d runs go out and %d slots are left; want %d and %d", c.n, len(ds),
				rest.Unused, c.want, c.spare)
		}
	}
}

// TestAnAsyncAttemptEndsAtItsTimeout: nobody watches it any more, so there is no grace.
func TestAnAsyncAttemptEndsAtItsTimeout(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.mustPut(carillon.Job{Name: "a", Target: carillon.WorkerQueue("q"), Timeout: time.Minute,
		Lease: 10 * time.Second, FailurePolicy: carillon.Constant(time.Hour).WithMaxRetries(1)})
	d := r.deliver(1)[0]
	if v := r.reportAs(d.Run.Token, &delivery.Report{Async: true}); v != partition.Accepted {
		t.Fatal(v)
	}
	r.flush()
	r.advance(time.Minute - 1)
	if j := r.jobs()[0]; j.State.Phase != carillon.PhaseRunning {
		t.Fatalf("before its timeout, without heartbeats, it is %v", j.State.Phase)
	}
	r.advance(1)
	if j := r.jobs()[0]; j.State.Phase != carillon.PhaseRetrying || j.State.Counters.Failed != 1 {
		t.Errorf("at its timeout it is %v", j.State.Phase)
	}
}

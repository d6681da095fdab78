package scenario_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// threeTries is a policy under which a run is dead after three attempts.
var threeTries = carillon.Constant(time.Second).WithMaxRetries(2)

// S09: a worker is stopped and keeps its stream, beside one that is idle. What it had is attempted again
// elsewhere: no run is dead.
func TestS09SilentWorkerGetsNoMore(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 14
		w.work("stopped", never).stopped.Store(true)
		w.work("idle", done)
		for i := range n {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i), Lease: time.Second, FailurePolicy: threeTries})
		}
		sleep(10 * time.Second)
		for i := range n {
			atStopped := 0
			for _, d := range w.deliveries(fmt.Sprint("job/", i)) {
				if d.Worker == "stopped" {
					atStopped++
				}
			}
			if atStopped > 1 {
				t.Errorf("job/%d: %d attempts at the stopped worker", i, atStopped)
			}
		}
		if dead := w.dead(); len(dead) > 0 {
			t.Errorf("%d runs are dead", len(dead))
		}
		w.empty()
	})
}

// S09: the only worker is silent. The run waits as it does without a consumer, and uses no attempt; it goes
// on when the worker speaks.
func TestS09OnlyASilentWorkerIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var awake atomic.Bool
		k := w.work("stopped", func(r carillon.Run) []carillon.Result {
			if !awake.Load() {
				return nil
			}
			return done(r)
		})
		k.stopped.Store(true)
		w.put(carillon.Job{Name: "job", Lease: time.Second, FailurePolicy: threeTries})
		sleep(time.Hour)
		if n := len(w.deliveries("job")); n != 1 {
			t.Fatalf("%d attempts in an hour", n)
		}
		if j := w.job("job"); j.Status.Phase != carillon.PhaseStaged {
			t.Errorf("the run is %v", j.Status.Phase)
		}
		awake.Store(true)
		k.send(carillon.WorkRequest{Pong: true})
		sleep(time.Second)
		if ds := w.deliveries("job"); len(ds) != 2 || ds[1].Attempt != 2 {
			t.Fatalf("after it has spoken: %+v", ds)
		}
		w.empty()
	})
}

// S09: of four workers three are stopped, and nobody knows of them. The first silence has the others asked
// for a sign of life, so that no run is dead.
func TestS09SeveralSilentWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		const n = 14
		for _, id := range []string{"a", "b", "c"} {
			w.work(id, never).stopped.Store(true)
		}
		w.work("idle", done)
		for i := range n {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i), Lease: time.Second, FailurePolicy: threeTries})
		}
		sleep(10 * time.Second)
		if dead := w.dead(); len(dead) > 0 {
			t.Errorf("%d runs are dead", len(dead))
		}
		w.empty()
	})
}

package scenario_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// S13: a thousand times, a worker's lease ends, its run goes to another worker, and then its result comes: it
// changes nothing, the worker is told, and the other's result stands.
func TestS13StaleWorker(t *testing.T) {
	const n = 1000
	inBubble(t, func(t *testing.T, w *world) {
		late := make(chan carillon.Run, n)
		a := w.connect("a", hello{queues: []string{"q"}, credits: n},
			func(r carillon.Run) []carillon.Result { late <- r; return nil })
		for i := range n {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i), Lease: 10 * time.Second})
		}
		sleep(5 * time.Second)
		b := w.connect("b", hello{queues: []string{"q"}, credits: n}, done)
		sleep(10 * time.Second)
		for range n {
			a.send(carillon.WorkRequest{Results: done(<-late)})
		}
		sleep(5 * time.Second)
		if acks, stale := a.told(); acks != 0 || stale != n {
			t.Errorf("a: %d acknowledged, %d stale; want 0 and %d", acks, stale, n)
		}
		if acks, stale := b.told(); acks != n || stale != 0 {
			t.Errorf("b: %d acknowledged, %d stale; want %d and 0", acks, stale, n)
		}
		for i := range n {
			h := w.history(fmt.Sprint("job/", i))
			if len(h) != 1 || h[0].Status != carillon.RunSucceeded || h[0].Attempt != 2 || h[0].Worker != "b" {
				t.Fatalf("job %d: %+v", i, h)
			}
		}
		w.empty()
	})
}

// S13: the run comes back to the very worker that lost it: its first attempt's result is refused all the
// same.
func TestS13StaleWorkerGetsItsRunBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		runs := make(chan carillon.Run, 2)
		k := w.work("a", func(r carillon.Run) []carillon.Result { runs <- r; return nil })
		w.put(carillon.Job{Name: "job", Lease: 10 * time.Second})
		sleep(15 * time.Second)
		first, second := <-runs, <-runs
		k.send(carillon.WorkRequest{Results: done(first)})
		sleep(time.Second)
		if acks, stale := k.told(); acks != 0 || stale == 0 {
			t.Errorf("the first attempt: %d acknowledged, %d stale", acks, stale)
		}
		k.send(carillon.WorkRequest{Results: done(second)})
		sleep(time.Second)
		if acks, _ := k.told(); acks != 1 {
			t.Errorf("the second attempt: %d acknowledged", acks)
		}
		w.empty()
	})
}

// S13: fabricated, repeated and out-of-order results change nothing and disturb nobody.
func TestS13FabricatedResults(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		held := make(chan carillon.Run, 3)
		k := w.work("a", func(r carillon.Run) []carillon.Result { held <- r; return nil })
		for _, name := range []string{"x", "y", "z"} {
			w.put(carillon.Job{Name: name})
		}
		sleep(time.Second)
		x, y, z := <-held, <-held, <-held
		forged := x
		forged.Token = x.Token[:len(x.Token)-2] + "AA"
		for _, r := range []carillon.Result{
			success(forged),
			{Token: "", RunID: x.ID, Outcome: carillon.OutcomeSuccess},
			{Token: "nonsense", RunID: x.ID, Outcome: carillon.OutcomeSuccess},
			success(z), success(z), // the last first, and twice
			failure(z), // and then another verdict
		} {
			k.send(carillon.WorkRequest{Results: []carillon.Result{r}})
		}
		sleep(time.Second)
		for _, r := range []carillon.Run{x, y} {
			if j := w.job(r.Job); j.Status.Phase != carillon.PhaseRunning || j.Status.Counters.Failed != 0 {
				t.Errorf("%s is %v", r.Job, j.Status.Phase)
			}
		}
		if h := w.history(z.Job); len(h) != 1 || h[0].Status != carillon.RunSucceeded {
			t.Errorf("%s: %+v", z.Job, h)
		}
		k.send(carillon.WorkRequest{Results: []carillon.Result{success(y), success(x)}})
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 3 {
			t.Errorf("%d deliveries of 3 runs", n)
		}
		w.empty()
	})
}

// S13: whoever has got hold of another namespace's token cannot end, fail or report progress of its run.
func TestS13TokenOfAnotherNamespace(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		held := make(chan carillon.Run, 1)
		w.work("own", func(r carillon.Run) []carillon.Result { held <- r; return nil })
		w.put(carillon.Job{Name: "job"})
		sleep(time.Second)
		run := <-held
		other := w.connect("other", hello{namespace: "other", queues: []string{"q"}}, done)
		for _, r := range []carillon.Result{success(run), failure(run),
			{Token: run.Token, Outcome: carillon.OutcomeProgress, Progress: carillon.Progress{Percent: 50}}} {
			other.send(carillon.WorkRequest{Results: []carillon.Result{r}})
		}
		sleep(time.Second)
		if acks, stale := other.told(); acks != 0 || stale == 0 {
			t.Errorf("%d acknowledged, %d stale", acks, stale)
		}
		if j := w.job("job"); j.Status.Phase != carillon.PhaseRunning || j.Status.Counters.Failed != 0 ||
			len(w.deliveries("job")) != 1 {
			t.Errorf("%+v", j.Status)
		}
	})
}

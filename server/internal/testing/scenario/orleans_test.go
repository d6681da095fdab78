package scenario_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

func TestOrleansMultipleTargets(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, q := range []string{"one", "two", "three"} {
			w.connect(q, hello{queues: []string{q}}, done)
			w.put(carillon.Job{Name: "for/" + q, Target: carillon.WorkerQueue(q)})
		}
		sleep(time.Second)
		for _, d := range w.deliveries("") {
			if d.Job != "for/"+d.Worker {
				t.Errorf("%s got %s", d.Worker, d.Job)
			}
		}
		if n := len(w.deliveries("")); n != 3 {
			t.Errorf("%d deliveries", n)
		}
		w.empty()
	})
}

// Names are unique in Carillon: three jobs of one name are three jobs without one, each with a name made up
// for it.
func TestOrleansDuplicateJobNames(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		names := map[string]bool{}
		for range 3 {
			names[w.put(carillon.Job{}).Job.Name] = true
		}
		w.work("worker", done)
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 3 || len(names) != 3 {
			t.Errorf("%d names, %d deliveries", len(names), n)
		}
	})
}

func TestOrleansConcurrentScheduling(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		uids := map[carillon.UID]bool{}
		for i := range 20 {
			wg.Go(func() {
				p, err := w.node.PutJob(t.Context(),
					carillon.Job{Name: fmt.Sprint("job/", i), Target: carillon.WorkerQueue("q")})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				uids[p.Job.Status.UID] = true
			})
		}
		wg.Wait()
		w.work("worker", done)
		sleep(time.Second)
		if n := len(w.deliveries("")); len(uids) != 20 || n != 20 {
			t.Errorf("%d ids, %d deliveries", len(uids), n)
		}
	})
}

func TestOrleansJobRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.policy(t, carillon.Job{}, first(2), time.Hour)
		var attempts []int
		for _, d := range w.deliveries("job") {
			attempts = append(attempts, d.Attempt)
		}
		if h := w.history("job"); !slices.Equal(attempts, []int{1, 2, 3}) || len(h) != 1 ||
			h[0].Status != carillon.RunSucceeded || len(h[0].Errors) != 2 {
			t.Errorf("attempts %v, history %+v", attempts, h)
		}
	})
}

// A new owner finds the jobs of a dead one in order, with their metadata, and goes on with them.
func TestOrleansDeadOwnerPreservesOrderAndMetadata(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		meta := map[string]string{"symbols": "=+/&?%\x00\n€", "empty": ""}
		for _, s := range []int{3, 1, 2} {
			w.put(carillon.Job{Name: fmt.Sprint(s),
				Due: carillon.At(began.Add(time.Duration(s) * time.Second)), Metadata: meta})
		}
		w.kill()
		w.start()
		w.work("worker", done)
		sleep(5 * time.Second)
		var order []string
		for _, d := range w.deliveries("") {
			order = append(order, d.Job)
			if len(d.Metadata) != 2 || d.Metadata["symbols"] != meta["symbols"] {
				t.Errorf("%s arrived with %v", d.Job, d.Metadata)
			}
		}
		if !slices.Equal(order, []string{"1", "2", "3"}) {
			t.Errorf("ran %v", order)
		}
	})
}

// An orderly hand-over leaves what has not run to the next owner.
func TestOrleansUnregisterWithJobsRemaining(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.put(carillon.Job{Name: "job", Due: carillon.In(10 * time.Second)})
		old := w.node
		w.stop()
		if _, err := old.PutJob(t.Context(),
			carillon.Job{Name: "late", Target: carillon.WorkerQueue("q")}); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("a put after the hand-over: %v", err)
		}
		w.start()
		w.work("worker", done)
		sleep(time.Minute)
		if len(w.deliveries("job")) != 1 || !w.gone("late") {
			t.Errorf("deliveries %v", w.deliveries(""))
		}
		w.empty()
	})
}

// A retry that waits keeps its attempt over a hand-over.
func TestOrleansRetryLaterSurvivesReassignment(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.work("worker", fails)
		w.put(carillon.Job{Name: "job", FailurePolicy: carillon.Constant(10 * time.Second)})
		sleep(time.Second)
		w.stop()
		w.start()
		w.work("worker", done)
		sleep(time.Minute)
		if ds := w.deliveries("job"); len(ds) != 2 || ds[1].Attempt != 2 || ds[1].ID != ds[0].ID {
			t.Errorf("deliveries %+v", ds)
		}
		w.empty()
	})
}

// What is cancelled before and while it runs stays cancelled after a hand-over.
func TestOrleansCancelsSurviveReassignment(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k := w.work("worker", never)
		w.put(carillon.Job{Name: "before", Due: carillon.In(10 * time.Second)})
		w.put(carillon.Job{Name: "during"})
		sleep(2 * time.Second)
		for _, name := range []string{"before", "during"} {
			d, err := w.node.DeleteJob(t.Context(), key(name))
			if err != nil || d.Interrupted != (name == "during") {
				t.Errorf("delete %s: %+v, %v", name, d, err)
			}
		}
		sleep(time.Second)
		if len(k.stops) != 1 {
			t.Errorf("told to stop %v", k.stops)
		}
		w.kill()
		w.start()
		w.work("worker", done)
		sleep(time.Minute)
		if n := len(w.deliveries("")); n != 1 {
			t.Errorf("%d deliveries", n)
		}
		w.empty()
	})
}

// A job that is due at the instant at which others are being handed out is not left behind.
func TestOrleansEnqueueIntoADrainingBucket(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		due := time.Now().Add(time.Second)
		for i := range 50 {
			w.put(carillon.Job{Name: fmt.Sprint("first/", i), Due: carillon.At(due)})
		}
		w.connect("worker", hello{queues: []string{"q"}, credits: 5}, func(r carillon.Run) []carillon.Result {
			time.Sleep(100 * time.Millisecond)
			return done(r)
		})
		time.Sleep(time.Until(due))
		for i := range 50 {
			w.put(carillon.Job{Name: fmt.Sprint("second/", i), Due: carillon.At(due)})
		}
		sleep(10 * time.Second)
		if n := len(w.deliveries("")); n != 100 {
			t.Errorf("%d of 100 were delivered", n)
		}
		w.empty()
	})
}

// A worker's credits bound how many runs it has at once.
func TestOrleansRespectsMaxConcurrentJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		going, most := 0, 0
		w.connect("worker", hello{queues: []string{"q"}, credits: 3}, func(r carillon.Run) []carillon.Result {
			mu.Lock()
			going++
			most = max(most, going)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			going--
			mu.Unlock()
			return done(r)
		})
		for i := range 10 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i)})
		}
		sleep(time.Minute)
		if most != 3 || len(w.deliveries("")) != 10 {
			t.Errorf("%d at once, %d deliveries", most, len(w.deliveries("")))
		}
		w.empty()
	})
}

// While a worker has no room no run begins; when it has, what waits begins at once.
func TestOrleansOverloadedConsumerTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		k := w.connect("worker", hello{queues: []string{"q"}, credits: 1}, never)
		for i := range 20 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i)})
		}
		sleep(30 * time.Second)
		if n := len(w.deliveries("")); n != 1 {
			t.Fatalf("%d deliveries for one credit", n)
		}
		k.answer = done
		k.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 5}}})
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 20 {
			t.Errorf("%d deliveries a second after there was room", n)
		}
	})
}

// An outcome that nobody knows is a failure, and goes by the failure policy.
func TestOrleansUnknownStatusIsAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.work("worker", func(r carillon.Run) []carillon.Result {
			return []carillon.Result{{Token: r.Token, RunID: r.ID, Outcome: 99}}
		})
		w.put(carillon.Job{Name: "job", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(2)})
		sleep(time.Minute)
		if n, dead := len(w.deliveries("job")), w.dead(); n != 3 || len(dead) != 1 {
			t.Errorf("%d deliveries, %d dead", n, len(dead))
		}
	})
}

// A job that is put for now is delivered without time passing; one for later is not.
func TestOrleansDueNowAndInFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.work("worker", done)
		began := time.Now()
		w.put(carillon.Job{Name: "now"})
		w.put(carillon.Job{Name: "later", Due: carillon.In(time.Minute)})
		sleep(time.Second)
		ds := w.deliveries("")
		if len(ds) != 1 || ds[0].Job != "now" || !ds[0].At.Equal(began) {
			t.Errorf("deliveries %v", ds)
		}
	})
}

// One wrong request among others is refused; the others are stored.
func TestOrleansOneWrongRequestDisturbsNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				j := carillon.Job{Name: fmt.Sprint("job/", i), Target: carillon.WorkerQueue("q")}
				if i == 3 {
					j.Schedule = "@every 0s"
				}
				if _, err := w.node.PutJob(t.Context(), j); (err != nil) != (i == 3) {
					t.Errorf("job %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		w.work("worker", done)
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 7 {
			t.Errorf("%d deliveries", n)
		}
	})
}

// A handler that asks to be run again later has not failed: the same run comes at that time, over a hand-over
// too, and its retries begin again.
func TestOrleansRescheduleByResult(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		at := time.Now().Add(time.Minute)
		w.work("worker", func(r carillon.Run) []carillon.Result {
			if r.Attempt == 1 {
				return fails(r)
			}
			return []carillon.Result{{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeReschedule, At: at}}
		})
		w.put(carillon.Job{Name: "job", FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(2)})
		sleep(10 * time.Second)
		if c := w.job("job").Status.Counters; c.Failed != 1 {
			t.Errorf("counters %+v", c)
		}
		w.stop()
		w.start()
		w.work("worker", fails)
		sleep(2 * time.Minute)
		ds := w.deliveries("job")
		if len(ds) != 5 || !ds[2].At.Equal(at) || ds[2].ID != ds[0].ID {
			t.Fatalf("deliveries at %v; want the third at the minute and two retries", after(at, ds))
		}
		if dead := w.dead(); len(dead) != 1 || dead[0].Attempt != 5 {
			t.Errorf("dead: %+v", dead)
		}
		w.empty()
	})
}

// Progress keeps an attempt alive as a heartbeat does, can be seen, and is not a result.
func TestOrleansProgressKeepsARunAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.work("worker", func(r carillon.Run) []carillon.Result { return nil })
		var k *worker
		k = w.connect("second", hello{queues: []string{"long"}}, func(r carillon.Run) []carillon.Result {
			for i := range 4 {
				time.Sleep(5 * time.Second)
				k.send(carillon.WorkRequest{Results: []carillon.Result{{Token: r.Token, RunID: r.ID,
					Outcome:  carillon.OutcomeProgress,
					Progress: carillon.Progress{Percent: float64(25 * i), Message: fmt.Sprint("step ", i)}}}})
			}
			time.Sleep(5 * time.Second)
			return fails(r)
		})
		w.put(carillon.Job{Name: "job", Lease: 8 * time.Second, Target: carillon.WorkerQueue("long"),
			FailurePolicy: carillon.Drop()})
		sleep(17 * time.Second)
		run := w.job("job").Status.Current
		if run == nil || run.Progress == nil || run.Progress.Percent != 50 || run.Progress.Message != "step 2" {
			t.Errorf("the run says %+v", run)
		}
		sleep(time.Minute)
		if h := w.history("job"); len(w.deliveries("job")) != 1 || len(h) != 1 ||
			h[0].Status != carillon.RunFailed {
			t.Errorf("history %+v", h)
		}
		w.empty()
	})
}

package scenario_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

func TestEtcdCronPrecision(t *testing.T) {
	for every, most := range map[time.Duration]time.Duration{time.Second: 3 * time.Second,
		100 * time.Millisecond: 300 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				began := time.Now()
				w.work("worker", done)
				w.put(carillon.Job{Name: "job", Schedule: "@every " + every.String(), Repeats: 3})
				sleep(time.Minute)
				want := []time.Duration{every, 2 * every, most}
				if got := after(began, w.deliveries("job")); !slices.Equal(got, want) {
					t.Errorf("ran at %v, want %v", got, want)
				}
			})
		})
	}
}

func TestEtcdCronZeroDueTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.work("worker", done)
		w.put(carillon.Job{Name: "job", Schedule: "@every 1h", Due: carillon.In(0)})
		sleep(time.Second)
		if n := len(w.deliveries("job")); n != 1 {
			t.Errorf("%d runs; the first is due at once", n)
		}
	})
}

func TestEtcdCronPayloadAndNamesWithSpaces(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.work("worker", done)
		data := make([]byte, 256)
		for i := range data {
			data[i] = byte(i)
		}
		w.put(carillon.Job{Name: "a job with spaces, ünï/çødé", Data: carillon.Bytes(data, "application/x-any")})
		sleep(time.Second)
		ds := w.deliveries("a job with spaces, ünï/çødé")
		if len(ds) != 1 || !slices.Equal(ds[0].Data.Bytes, data) || ds[0].Data.ContentType != "application/x-any" {
			t.Errorf("arrived as %+v", ds)
		}
	})
}

// A put while the run is in force makes a second delivery, and in the end nothing is stored.
func TestEtcdCronMidTrigger(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		held := make(chan carillon.Run, 2)
		k := w.work("worker", func(r carillon.Run) []carillon.Result { held <- r; return nil })
		w.put(carillon.Job{Name: "job"})
		first := <-held
		w.put(carillon.Job{Name: "job"})
		second := <-held
		k.send(carillon.WorkRequest{Results: []carillon.Result{success(first), success(second)}})
		sleep(time.Second)
		if acks, stale := k.told(); acks != 1 || stale != 1 {
			t.Errorf("%d acknowledged, %d stale", acks, stale)
		}
		w.empty()
	})
}

// A hundred jobs are in flight at once, and when all have been answered the store is empty.
func TestEtcdCronParallel(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.work("worker", func(r carillon.Run) []carillon.Result { <-release; return done(r) })
		for i := range 100 {
			w.put(carillon.Job{Name: fmt.Sprint("job/", i)})
		}
		sleep(time.Second)
		if n := len(w.deliveries("")); n != 100 {
			t.Errorf("%d in flight", n)
		}
		close(release)
		w.empty()
	})
}

// Deleting by prefix removes what waits, what is staged and what is in force.
func TestEtcdCronDeletePrefixes(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.connect("worker", hello{queues: []string{"served"}}, never)
		for i := range 10 {
			w.put(carillon.Job{Name: fmt.Sprint("gone/later/", i), Due: carillon.In(time.Minute)})
			w.put(carillon.Job{Name: fmt.Sprint("gone/staged/", i)})
			w.put(carillon.Job{Name: fmt.Sprint("gone/running/", i), Target: carillon.WorkerQueue("served")})
			w.put(carillon.Job{Name: fmt.Sprint("kept/", i), Due: carillon.In(time.Minute)})
		}
		sleep(5 * time.Second)
		if n, err := w.node.DeleteJobs(t.Context(), carillon.DefaultNamespace, "gone/"); err != nil || n != 30 {
			t.Errorf("deleted %d, %v", n, err)
		}
		w.work("second", done)
		sleep(2 * time.Minute)
		for _, d := range w.deliveries("") {
			if d.Worker == "second" && d.Job[:4] != "kept" {
				t.Errorf("%s was delivered", d.Job)
			}
		}
		if n := len(w.deliveries("")); n != 20 {
			t.Errorf("%d deliveries, want 10 before the delete and 10 after", n)
		}
		w.empty()
	})
}

// A consumer that comes while a run is being staged gets it at once.
func TestEtcdCronConsumerComesDuringTrigger(t *testing.T) {
	for _, wait := range []time.Duration{0, 500 * time.Millisecond, 999 * time.Millisecond, time.Second,
		1001 * time.Millisecond, 3 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.put(carillon.Job{Name: "job"})
				sleep(wait)
				came := time.Now()
				w.work("worker", done)
				sleep(time.Second)
				if ds := w.deliveries("job"); len(ds) != 1 || ds[0].At.Sub(came) > 100*time.Millisecond {
					t.Errorf("%d deliveries, %v", len(ds), after(came, ds))
				}
				w.empty()
			})
		})
	}
}

// Attempts begin at one again with each run, and a run's count ends with it.
func TestEtcdCronAttemptsResetOnSuccess(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		failures := 0
		w.connect("worker", hello{queues: []string{"q"}, credits: 1}, func(r carillon.Run) []carillon.Result {
			if r.Attempt < 3 {
				failures++
				return fails(r)
			}
			return done(r)
		})
		w.put(carillon.Job{Name: "job", Schedule: "@every 10s", Repeats: 3})
		sleep(time.Minute)
		var attempts []int
		for _, d := range w.deliveries("job") {
			attempts = append(attempts, d.Attempt)
		}
		if !slices.Equal(attempts, []int{1, 2, 3, 1, 2, 3, 1, 2, 3}) {
			t.Errorf("attempts %v", attempts)
		}
		w.empty()
	})
}

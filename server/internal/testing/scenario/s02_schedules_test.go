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

// S02: repeats end a schedule, and the job is gone. (The grammar itself is tested in package schedule.)
func TestS02Repeats(t *testing.T) {
	for name, job := range map[string]carillon.Job{
		"repeats":  {Schedule: "@every 1s", Repeats: 4},
		"R4/PT3S":  {Schedule: "R4/PT3S"},
		"the less": {Schedule: "R9/PT1S", Repeats: 4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.work("worker", done)
				job.Name = "job"
				w.put(job)
				sleep(time.Minute)
				if n := len(w.deliveries("job")); n != 4 || !w.gone("job") {
					t.Errorf("%d runs, gone: %v", n, w.gone("job"))
				}
				w.empty()
			})
		})
	}
}

// S02: ttl counts from due_time, inclusive.
func TestS02TTLCountsFromDueTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		began := time.Now()
		w.work("worker", done)
		w.put(carillon.Job{Name: "job", Schedule: "@every 2s", Due: carillon.In(2 * time.Second),
			TTL: carillon.In(5 * time.Second)})
		sleep(time.Minute)
		want := []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second}
		if got := after(began, w.deliveries("job")); !slices.Equal(got, want) {
			t.Errorf("ran at %v, want %v", got, want)
		}
		w.empty()
	})
}

// S02: a broken schedule is refused and nothing is stored.
func TestS02WrongSchedules(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for _, s := range []string{"TZ=UTC", "CRON_TZ=UTC ", "* * * *", "* * * * * * * *", "60 * * * * *",
			"@every", "@every -1s", "0 0 30 2 *"} {
			_, err := w.node.PutJob(t.Context(),
				carillon.Job{Name: "job", Schedule: s, Target: carillon.WorkerQueue("q")})
			var e *carillon.Error
			if !errors.As(err, &e) || e.Kind != carillon.InvalidArgument || e.Field != "schedule" {
				t.Errorf("%q: %v", s, err)
			}
		}
		w.empty()
	})
}

// S02: ten clients put one name at once: one job is there, with the data of the last put that was committed.
func TestS02ConcurrentUpserts(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		byGeneration := map[uint64]string{}
		for i := range 10 {
			wg.Go(func() {
				data := fmt.Sprint(i)
				p, err := w.node.PutJob(t.Context(), carillon.Job{Name: "one", Due: carillon.In(time.Minute),
					Target: carillon.WorkerQueue("q"), Data: carillon.Bytes([]byte(data), "text/plain")})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				byGeneration[p.Job.Status.Generation] = data
			})
		}
		wg.Wait()
		j := w.job("one")
		if want := byGeneration[10]; j.Status.Generation != 10 || string(j.Data.Bytes) != want {
			t.Errorf("generation %d with data %s, want 10 with %s", j.Status.Generation, j.Data.Bytes, want)
		}
	})
}

// S02: a put while the run is in force: its old acknowledgement changes nothing, the new generation runs
// once.
func TestS02UpsertDuringATrigger(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		first := make(chan carillon.Run, 1)
		k := w.work("worker", func(r carillon.Run) []carillon.Result {
			if string(r.Data.Bytes) == "old" {
				first <- r
				return nil
			}
			return done(r)
		})
		w.put(carillon.Job{Name: "job", Data: carillon.Bytes([]byte("old"), "text/plain")})
		sleep(time.Second)
		w.put(carillon.Job{Name: "job", Data: carillon.Bytes([]byte("new"), "text/plain")})
		k.send(carillon.WorkRequest{Results: done(<-first)})
		sleep(5 * time.Second)
		if ds := w.deliveries("job"); len(ds) != 2 || string(ds[1].Data.Bytes) != "new" {
			t.Errorf("%d deliveries", len(ds))
		}
		if acks, stale := k.told(); acks != 1 || stale != 1 {
			t.Errorf("%d acknowledged, %d stale; want 1 and 1", acks, stale)
		}
		w.empty()
	})
}

// S02: one namespace sees nothing of another, in a thousand tries.
func TestS02Isolation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		mine := w.put(carillon.Job{Name: "secret", Schedule: "@every 1s"})
		w.connect("stranger", hello{namespace: "other", queues: []string{"q"}}, done)
		other := carillon.Key{Namespace: "other", Name: "secret"}
		run, err := w.node.TriggerJob(t.Context(), key("secret"))
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			_, get := w.node.GetJob(t.Context(), other)
			_, del := w.node.DeleteJob(t.Context(), other)
			_, see := w.node.GetRun(t.Context(), "other", run.ID)
			_, cancel := w.node.CancelRun(t.Context(), "other", run.ID)
			for _, err := range []error{get, del, see, cancel} {
				if !errors.Is(err, carillon.NotFound) {
					t.Fatalf("%v, want not found", err)
				}
			}
			page, err := w.node.ListJobs(t.Context(), carillon.JobQuery{Namespace: "other"})
			if err != nil || len(page.Jobs) != 0 {
				t.Fatalf("lists %v, %v", page.Jobs, err)
			}
			sleep(10 * time.Millisecond)
		}
		if n := len(w.deliveries("")); n != 0 {
			t.Errorf("the stranger got %d runs", n)
		}
		if now := w.job("secret"); now.Status.UID != mine.Job.Status.UID {
			t.Error("it is another job now")
		}
	})
}

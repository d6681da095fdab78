package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

var keyA = carillon.Key{Namespace: "default", Name: "a"}

func (n *node) put(j carillon.Job) carillon.PutResult {
	n.t.Helper()
	j.Target = carillon.WorkerQueue("q")
	put, err := n.PutJob(context.Background(), j)
	if err != nil {
		n.t.Fatal(err)
	}
	return put
}

// TestASkippedTimeStaysInTheHistory: over a restart.
func TestASkippedTimeStaysInTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 2})
		n := start(t, s)
		n.consume("q", 10, success)
		began := time.Now()
		n.put(carillon.Job{Name: "a", Schedule: "@every 1m"})
		skip, err := n.SkipRun(ctx, keyA)
		if err != nil || !skip.Time.Equal(began.Add(time.Minute)) ||
			!skip.Job.Status.NextRun.Equal(began.Add(2*time.Minute)) {
			t.Fatalf("%+v %v", skip, err)
		}
		n.stop()
		n = start(t, s)
		c := n.consume("q", 10, success)
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if runs := c.got(); len(runs) != 1 || !runs[0].Scheduled.Equal(began.Add(2*time.Minute)) {
			t.Fatalf("ran %+v", runs)
		}
		page, err := n.ListRuns(ctx, carillon.RunQuery{Job: "a"})
		if err != nil || len(page.Runs) != 2 || page.Runs[1].Status != carillon.RunSkipped ||
			page.Runs[1].Reason != "skipped" {
			t.Fatalf("history %+v %v", page, err)
		}
		n.put(carillon.Job{Name: "once", Due: carillon.In(time.Hour)})
		if _, err := n.SkipRun(ctx, carillon.Key{Namespace: "default", Name: "once"}); !errors.Is(err,
			carillon.FailedPrecondition) {
			t.Fatalf("a one-shot: %v", err)
		}
		if _, err := n.SkipRun(ctx, carillon.Key{Namespace: "default",
			Name: "none"}); !errors.Is(err, carillon.NotFound) {
			t.Fatalf("no job: %v", err)
		}
		n.stop()
	})
}

func TestAResumedJobCatchesUpIfAsked(t *testing.T) {
	for catchUp, want := range map[bool]int{false: 0, true: 5} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			n := start(t, memory.New(memory.Options{Partitions: 1}))
			c := n.consume("q", 1, success)
			n.put(carillon.Job{Name: "a", Schedule: "@every 1m",
				Misfire: carillon.Misfire{Rule: carillon.MisfireAll}, Paused: true})
			time.Sleep(5*time.Minute + time.Second)
			j, err := n.SetPaused(ctx, keyA, carillon.PauseOptions{CatchUp: catchUp})
			if err != nil || j.Paused {
				t.Fatalf("%+v %v", j, err)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if runs := c.got(); len(runs) != want {
				t.Fatalf("catch up %v: %d runs, want %d", catchUp, len(runs), want)
			}
			n.stop()
		})
	}
}

// TestAPauseWithANoteThatNoJobMayHaveIsRefused: the job is unchanged. With such a note no patch of it would
// be possible.
func TestAPauseWithANoteThatNoJobMayHaveIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		n.put(carillon.Job{Name: "a", Schedule: "@every 1m", Note: "fine"})
		for _, note := range []string{strings.Repeat("x", 4<<10+1), "\xff"} {
			_, err := n.SetPaused(ctx, keyA, carillon.PauseOptions{Paused: true, Note: note})
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.InvalidArgument || e.Field != "note" {
				t.Fatalf("a note of %d bytes: %v", len(note), err)
			}
		}
		if j, err := n.GetJob(ctx, keyA); err != nil || j.Paused || j.Note != "fine" {
			t.Fatalf("the job after that: %+v %v", j, err)
		}
		if _, err := n.SetPaused(ctx, keyA, carillon.PauseOptions{Paused: true,
			Note: strings.Repeat("x", 4<<10)}); err != nil {
			t.Fatalf("the longest note: %v", err)
		}
		n.stop()
	})
}

// TestProgressIsSeenAndFreesNoRoom: a worker reports progress over its stream and by CompleteRun.
func TestProgressIsSeenAndFreesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		c := n.consume("q", 1, silent)
		n.put(carillon.Job{Name: "a", Lease: 10 * time.Second})
		n.put(carillon.Job{Name: "b", Due: carillon.In(time.Second)})
		synctest.Wait()
		run := c.got()[0]
		for i := range 5 {
			time.Sleep(8 * time.Second) // without heartbeats
			said := carillon.Result{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeProgress,
				Progress: carillon.Progress{Percent: float64(10 * i), Message: fmt.Sprint(i)}}
			var err error
			if i%2 == 0 {
				err = c.Send(ctx, carillon.WorkRequest{Results: []carillon.Result{said}})
			} else {
				err = n.CompleteRun(ctx, "default", said)
			}
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			got, err := n.GetRun(ctx, "default", run.ID)
			if err != nil || got.Progress == nil || got.Progress.Percent != float64(10*i) ||
				got.Progress.Message != fmt.Sprint(i) ||
				!got.Progress.At.Equal(time.Now()) || got.Status != carillon.RunRunning || got.Attempt != 1 {
				t.Fatalf("%d: %+v %v", i, got, err)
			}
		}
		if len(c.got()) != 1 || c.heard().acks != 0 { // an acknowledgement would say that the run has ended
			t.Fatalf("%d runs on one credit, %d acknowledged", len(c.got()), c.heard().acks)
		}
		if _, err := n.CancelRun(ctx, "default", run.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(c.heard().cancels) != 1 || c.heard().cancels[0] != run.Token {
			t.Fatalf("told to stop: %v", c.heard().cancels)
		}
		late := carillon.Result{Token: run.Token, Outcome: carillon.OutcomeProgress}
		if err := n.CompleteRun(ctx, "default", late); !errors.Is(err, carillon.FailedPrecondition) {
			t.Fatalf("of a run that has ended: %v", err)
		}
		n.stop()
	})
}

func TestARescheduledRunComesBackAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 1})
		n := start(t, s)
		c := n.consume("q", 1, silent)
		n.put(carillon.Job{Name: "a"})
		synctest.Wait()
		run := c.got()[0]
		again := time.Now().Add(time.Hour)
		res := carillon.Result{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeReschedule, At: again}
		for range 2 {
			if err := n.CompleteRun(ctx, "default", res); err != nil {
				t.Fatal(err)
			}
		}
		n.stop()
		n = start(t, s)
		c = n.consume("q", 1, success)
		if err := n.CompleteRun(ctx, "default", res); err != nil {
			t.Fatalf("told once more: %v", err)
		}
		got, err := n.GetRun(ctx, "default", run.ID)
		if err != nil || got.Status != carillon.RunRetrying || !got.Due.Equal(again) || len(got.Errors) != 0 {
			t.Fatalf("%+v %v", got, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if runs := c.got(); len(runs) != 1 || runs[0].ID != run.ID || runs[0].Attempt != 2 {
			t.Fatalf("%+v", runs)
		}
		n.stop()
	})
}

// TestABacklogGoesByClassWithManySlots: more is due at the start than fits into memory, and a worker takes
// many runs at once.
func TestABacklogGoesByClassWithManySlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 3000
		ctx, s := context.Background(), memory.New(memory.Options{Partitions: 1})
		n := start(t, s)
		for i := 0; i < jobs; i += 1000 {
			batch := make([]carillon.Job, 1000)
			for k := range batch {
				batch[k] = carillon.Job{Name: fmt.Sprint(i + k), Due: carillon.In(time.Minute),
					Target: carillon.WorkerQueue("q")}
				batch[k].Priority = [...]carillon.Priority{carillon.PriorityCritical, carillon.PriorityLow,
					carillon.PriorityNormal}[k%3]
			}
			if _, err := n.PutJobs(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		n.stop()
		time.Sleep(time.Hour)
		n = startWith(t, engine.Config{Store: s, WindowJobs: 256})
		classes := map[string]uint8{}
		for i := range jobs {
			classes[fmt.Sprint(i)] = [...]uint8{0, 3, 2}[i%1000%3]
		}
		c := n.consume("q", 700, success)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		runs := c.got()
		if len(runs) != jobs {
			t.Fatalf("%d of %d ran", len(runs), jobs)
		}
		for i := 1; i < len(runs); i++ {
			if classes[runs[i].Job] < classes[runs[i-1].Job] {
				t.Fatalf("run %d is of class %d after one of class %d", i, classes[runs[i].Job], classes[runs[i-1].Job])
			}
		}
		n.stop()
	})
}

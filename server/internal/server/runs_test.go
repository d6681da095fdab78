package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/worker"
)

func TestAJobFiresOnce(t *testing.T) {
	everywhere(t, func(w *rig) {
		got := make(chan carillon.Run, 10)
		stop := w.work(w.sched, worker.Options{ID: "me"},
			func(_ context.Context, run carillon.Run, data []byte) error {
				run.Data.Bytes = data
				got <- run
				return nil
			})
		w.put(carillon.Job{Name: "hello/rig", Data: carillon.JSON(1), Metadata: map[string]string{"a": "b"}})
		run := await(w.t, got)
		if run.Job != "hello/rig" || string(run.Data.Bytes) != "1" || run.Attempt != 1 || run.Metadata["a"] != "b" {
			w.t.Errorf("run: %+v", run)
		}
		stop()
		if r := w.ended(run.ID, carillon.RunSucceeded, 1); r.Worker != "me" {
			w.t.Errorf("worker: %q", r.Worker)
		}
		w.gone("hello/rig")
		if len(got) != 0 {
			w.t.Errorf("it ran again: %+v", <-got)
		}
	})
}

func TestAFailedRunIsRetried(t *testing.T) {
	everywhere(t, func(w *rig) {
		got := make(chan carillon.Run, 10)
		stop := w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			got <- run
			if run.Attempt < 3 {
				return fmt.Errorf("not yet: %d", run.Attempt)
			}
			return nil
		})
		w.put(carillon.Job{Name: "flaky", FailurePolicy: carillon.Constant(5 * time.Millisecond).WithMaxRetries(2)})
		first, second, third := await(w.t, got), await(w.t, got), await(w.t, got)
		stop()
		if first.ID != second.ID || second.ID != third.ID || first.Token == second.Token {
			w.t.Errorf("not one run with three tokens: %v, %v, %v", first, second, third)
		}
		if d := second.Started.Sub(first.Started); d < 5*time.Millisecond {
			w.t.Errorf("the second attempt came %v after the first", d)
		}
		run := w.ended(first.ID, carillon.RunSucceeded, 3)
		if len(run.Errors) != 2 || run.Errors[1].Message != "not yet: 2" || run.Errors[1].Attempt != 2 {
			w.t.Errorf("errors: %+v", run.Errors)
		}
	})
}

func TestAnExhaustedRunIsDeadUntilRedriven(t *testing.T) {
	everywhere(t, func(w *rig) {
		got := make(chan carillon.Run, 10)
		stop := w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			got <- run
			return errors.New("no")
		})
		w.put(carillon.Job{Name: "doomed", Data: carillon.JSON("kept"),
			FailurePolicy: carillon.Constant(time.Millisecond).WithMaxRetries(1)})
		id := await(w.t, got).ID
		await(w.t, got)
		stop()
		w.ended(id, carillon.RunDead, 2)
		w.gone("doomed")
		page, err := w.sched.ListRuns(w.t.Context(),
			carillon.RunQuery{Namespace: carillon.DefaultNamespace, Statuses: []carillon.RunStatus{carillon.RunDead}})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != id || len(page.Runs[0].Errors) != 2 {
			w.t.Fatalf("dead runs: %+v, %v", page, err)
		}

		payload := make(chan string, 10)
		stop = w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, data []byte) error {
			payload <- fmt.Sprintln(run.ID == id, run.Attempt, string(data))
			return nil
		})
		if _, err := w.sched.RedriveRun(w.t.Context(), carillon.DefaultNamespace, id); err != nil {
			w.t.Fatal(err)
		}
		if got := await(w.t, payload); got != "true 3 \"kept\"\n" {
			w.t.Errorf("redriven run: %s", got)
		}
		stop()
		w.ended(id, carillon.RunSucceeded, 3)
	})
}

func TestAPermanentFailureIsNotRetried(t *testing.T) {
	everywhere(t, func(w *rig) {
		got := make(chan string, 10)
		wk := worker.New(w.sched, worker.Options{})
		worker.Handle(wk, queue, func(_ context.Context, run carillon.Run, in struct{ N int }) error {
			got <- run.ID
			return worker.Discard(errors.New("never"))
		})
		ctx, cancel := context.WithCancel(context.Background())
		w.t.Cleanup(cancel)
		ended := make(chan error, 1)
		go func() { ended <- wk.Run(ctx) }()
		w.put(carillon.Job{Name: "good", Data: carillon.JSON(map[string]int{"N": 1})})
		good := await(w.t, got)
		w.put(carillon.Job{Name: "bad", Data: carillon.Bytes([]byte("no JSON"), "text/plain")})
		w.put(carillon.Job{Name: "next", Data: carillon.JSON(map[string]int{"N": 2})})
		await(w.t, got)
		cancel()
		if err := await(w.t, ended); err != nil {
			w.t.Error(err)
		}
		w.ended(good, carillon.RunDead, 1)
		page, err := w.sched.ListRuns(w.t.Context(), carillon.RunQuery{Job: "bad",
			Statuses: []carillon.RunStatus{carillon.RunDead}})
		if err != nil || len(page.Runs) != 1 || !strings.Contains(page.Runs[0].Errors[0].Message, "payload") {
			w.t.Errorf("undecodable: %+v, %v", page, err)
		}
	})
}

func TestARunningRunIsCancelled(t *testing.T) {
	for name, end := range map[string]func(w *rig, run carillon.Run) (interrupted bool, err error){
		"by itself": func(w *rig, run carillon.Run) (bool, error) {
			c, err := w.sched.CancelRun(w.t.Context(), run.Namespace, run.ID)
			return c.Interrupted && !c.Prevented, err
		},
		"with its job": func(w *rig, run carillon.Run) (bool, error) {
			d, err := w.sched.DeleteJob(w.t.Context(), key(run.Job))
			return d.Interrupted, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(w *rig) {
				began, causes := make(chan carillon.Run, 1), make(chan error, 1)
				stop := w.work(w.sched, worker.Options{}, func(ctx context.Context, run carillon.Run, _ []byte) error {
					began <- run
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return nil
				})
				w.put(carillon.Job{Name: "long"})
				run := await(w.t, began)
				if interrupted, err := end(w, run); err != nil || !interrupted {
					w.t.Errorf("interrupted: %v, %v", interrupted, err)
				}
				if err := await(w.t, causes); !errors.Is(err, worker.ErrCancelled) {
					w.t.Errorf("cause: %v", err)
				}
				stop()
				w.gone("long")
				if name == "by itself" {
					w.ended(run.ID, carillon.RunCancelled, 1)
				}
			})
		})
	}
}

func TestAPausedJobFiresAfterItIsResumed(t *testing.T) {
	everywhere(t, func(w *rig) {
		got := make(chan string, 10)
		stop := w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			got <- run.Job
			return nil
		})
		w.put(carillon.Job{Name: "later", Due: carillon.In(time.Hour)})
		if j, err := w.sched.SetPaused(w.t.Context(), key("later"),
			carillon.PauseOptions{Paused: true, Note: "not now"}); err != nil || !j.Paused || j.Note != "not now" ||
			j.Status.Phase != carillon.PhasePaused {
			w.t.Fatalf("paused: %+v, %v", j, err)
		}
		if _, err := w.sched.PatchJob(w.t.Context(), key("later"),
			carillon.Patch{Fields: []string{"due_time"}, Job: carillon.Job{Due: carillon.In(0)}}); err != nil {
			w.t.Fatal(err)
		}
		w.put(carillon.Job{Name: "now"})
		if job := await(w.t, got); job != "now" {
			w.t.Errorf("%s fired first", job)
		}
		if _, err := w.sched.SetPaused(w.t.Context(), key("later"), carillon.PauseOptions{}); err != nil {
			w.t.Fatal(err)
		}
		if job := await(w.t, got); job != "later" {
			w.t.Errorf("%s fired after it was resumed", job)
		}
		stop()
	})
}

func TestTriggeredRunLeavesTheScheduleAlone(t *testing.T) {
	everywhere(t, func(w *rig) {
		got := make(chan carillon.Run, 10)
		stop := w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			got <- run
			return nil
		})
		before := w.put(carillon.Job{Name: "yearly", Schedule: "@yearly"}).Job.Status.NextRun
		triggered, err := w.sched.TriggerJob(w.t.Context(), key("yearly"))
		if err != nil {
			w.t.Fatal(err)
		}
		if run := await(w.t, got); run.ID != triggered.ID || run.Cause != carillon.CauseTrigger {
			w.t.Errorf("run: %+v", run)
		}
		stop()
		w.ended(triggered.ID, carillon.RunSucceeded, 1)
		j, err := w.sched.GetJob(w.t.Context(), key("yearly"))
		if err != nil || !j.Status.NextRun.Equal(before) {
			w.t.Errorf("job: %+v, %v", j.Status, err)
		}
	})
}

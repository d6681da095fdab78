package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// returning has a worker of the queue do n runs, which return what the payload says.
func (w *rig) returning(n int, returned func(data []byte) ([]byte, error)) {
	w.t.Helper()
	did := make(chan struct{}, n)
	wk := worker.New(w.sched, worker.Options{})
	worker.HandleResult(wk, queue, func(_ context.Context, _ carillon.Run, in []byte) ([]byte, error) {
		did <- struct{}{}
		return returned(in)
	})
	stop := w.running(wk)
	for range n {
		await(w.t, did)
	}
	stop()
}

// TestResultsAreKeptAndShown: of runs that succeed and that end failed, as they are, up to the bound.
func TestResultsAreKeptAndShown(t *testing.T) {
	everywhere(t, func(w *rig) {
		long := bytes.Repeat([]byte{0xff, 'x'}, carillon.MaxResponse/2)
		returned := func(data []byte) ([]byte, error) {
			switch string(data) {
			case `"long"`:
				return long, nil
			case `"too long"`:
				return append(long, 'x'), nil // it is left out, and the run has succeeded all the same
			case `"failed"`:
				return []byte("what it printed"), worker.Discard(errors.New("no"))
			}
			return data, nil
		}
		wanted := map[string]struct {
			status carillon.RunStatus
			result []byte
		}{
			"short": {carillon.RunSucceeded, []byte(`"short"`)}, "long": {carillon.RunSucceeded, long},
			"too long": {carillon.RunSucceeded, nil}, "failed": {carillon.RunDead, []byte("what it printed")},
		}
		for data := range wanted {
			w.put(carillon.Job{Name: data, Data: carillon.JSON(data)})
		}
		w.returning(len(wanted), returned)
		for data, want := range wanted {
			page, err := w.sched.ListRuns(w.t.Context(), carillon.RunQuery{Job: data})
			if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != want.status ||
				!bytes.Equal(page.Runs[0].Response, want.result) {
				w.t.Fatalf("%s: %+v, %v", data, page, err)
			}
			run, err := w.sched.GetRun(w.t.Context(), carillon.DefaultNamespace, page.Runs[0].ID)
			if err != nil || !bytes.Equal(run.Response, want.result) {
				w.t.Errorf("%s: %+v, %v", data, run, err)
			}
		}
		err := w.sched.CompleteRun(w.t.Context(), carillon.DefaultNamespace,
			carillon.Result{Token: "x", Outcome: carillon.OutcomeSuccess, Response: append(long, 'x')})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Field != "response" {
			w.t.Errorf("a result that is too long: %v", err)
		}
	})
}

// TestATriggerWithDataAndARule over every way to call a scheduler.
func TestATriggerWithDataAndARule(t *testing.T) {
	everywhere(t, func(w *rig) {
		got, goOn := make(chan string, 10), make(chan struct{})
		stop := w.work(w.sched, worker.Options{}, func(ctx context.Context, run carillon.Run, data []byte) error {
			got <- fmt.Sprintf("%s %s %v", data, run.Data.ContentType, run.Metadata)
			select {
			case <-goOn:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		w.put(carillon.Job{Name: "a", Schedule: "@yearly", Data: carillon.JSON("the job's")})
		trigger := func(o ...carillon.TriggerOption) (carillon.Run, error) {
			return w.sched.TriggerJob(w.t.Context(), key("a"), o...)
		}
		own, none := carillon.Bytes([]byte("own"), "text/own"), carillon.Data{}
		skip, replace, serial := carillon.OverlapSkip, carillon.OverlapReplace, carillon.OverlapSerial
		first, err := trigger(carillon.TriggerOptions{Data: &own, Metadata: map[string]string{"k": "v"}})
		if text := await(w.t, got); err != nil || text != "own text/own map[k:v]" {
			w.t.Errorf("%q, %v", text, err)
		}
		if run, err := trigger(carillon.TriggerOptions{Overlap: &skip}); carillon.KindOf(err) != carillon.FailedPrecondition {
			w.t.Errorf("beside an unfinished run: %+v, %v", run, err)
		}
		if run, err := trigger(carillon.TriggerOptions{Overlap: &serial}); carillon.KindOf(err) != carillon.InvalidArgument {
			w.t.Errorf("serial: %+v, %v", run, err)
		}
		_, err = trigger(carillon.TriggerOptions{Data: &none, Overlap: &replace})
		if text := await(w.t, got); err != nil || text != "  map[]" {
			w.t.Errorf("%q, %v", text, err)
		}
		w.ended(first.ID, carillon.RunCancelled, 1)
		if _, err := trigger(); err != nil {
			w.t.Error(err)
		}
		if text := await(w.t, got); text != `"the job's" application/json map[]` {
			w.t.Errorf("%q", text)
		}
		close(goOn)
		stop()
	})
}

// TestAJobPausesItselfAfterFailures shows why, and runs again once it is resumed.
func TestAJobPausesItselfAfterFailures(t *testing.T) {
	everywhere(t, func(w *rig) {
		got := make(chan carillon.Run, 100)
		fail := func(_ context.Context, run carillon.Run, _ []byte) error {
			got <- run
			return errors.New("no")
		}
		stop := w.work(w.sched, worker.Options{}, fail)
		policy := carillon.Drop()
		policy.PauseAfter = 2
		w.put(carillon.Job{Name: "a", Schedule: "@every 10ms", FailurePolicy: policy})
		await(w.t, got)
		last := await(w.t, got)
		stop()
		w.ended(last.ID, carillon.RunFailed, 1)
		const why = "paused because 2 runs in a row have failed: failure_policy.pause_after is 2"
		j, err := w.sched.GetJob(w.t.Context(), key("a"))
		if err != nil || !j.Paused || j.Note != why || j.Status.Failures != 2 || j.Status.LastRun.ID != last.ID {
			w.t.Fatalf("%+v %+v, %v", j, j.Status, err)
		}
		j, err = w.sched.SetPaused(w.t.Context(), key("a"), carillon.PauseOptions{})
		if err != nil || j.Paused || j.Status.Failures != 0 {
			w.t.Errorf("resumed: %+v, %v", j, err)
		}
		stop = w.work(w.sched, worker.Options{}, fail)
		await(w.t, got)
		stop()
	})
}

// TestThreeNodesTakeResultsAndTriggers: any node takes a trigger for a job of another, a worker of one node
// returns results of runs of all, in messages that are bounded, and any node shows them.
func TestThreeNodesTakeResultsAndTriggers(t *testing.T) {
	x := startTrio(t, server.Config{}, 3)
	w := &rig{t: t, sched: x.clients[0]}
	const jobs = 100
	for i := range jobs {
		w.put(carillon.Job{Name: fmt.Sprint(i), Schedule: "@yearly"})
	}
	ids := map[string]byte{}
	rule := carillon.OverlapSkip
	for i := range jobs {
		data := carillon.Bytes([]byte{byte(i)}, "")
		run, err := x.clients[i%3].TriggerJob(t.Context(), key(fmt.Sprint(i)),
			carillon.TriggerOptions{Data: &data, Overlap: &rule})
		if err != nil {
			t.Fatal(err)
		}
		ids[run.ID] = byte(i)
	}
	w.returning(jobs, func(data []byte) ([]byte, error) { return bytes.Repeat(data, carillon.MaxResponse), nil })
	for id, i := range ids {
		w.ended(id, carillon.RunSucceeded, 1)
		for _, c := range x.clients {
			run, err := c.GetRun(t.Context(), carillon.DefaultNamespace, id)
			if err != nil || !bytes.Equal(run.Response, bytes.Repeat([]byte{i}, carillon.MaxResponse)) {
				t.Fatalf("run %d: %v, %d bytes, %v", i, run.Status, len(run.Response), err)
			}
		}
	}
}

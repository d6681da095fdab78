package main

import (
	"context"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// history is a Scheduler of one job that recurs, with runs that have finished. The other calls panic.
type history struct {
	carillon.Scheduler
	runs []carillon.Run
}

func (h *history) GetJob(_ context.Context, key carillon.Key) (carillon.Job, error) {
	return carillon.Job{Namespace: key.Namespace, Name: key.Name, Schedule: "@daily", Status: &carillon.JobStatus{}}, nil
}

func (h *history) ListRuns(_ context.Context, q carillon.RunQuery) (page carillon.RunPage, err error) {
	for _, r := range h.runs {
		if !r.Finished.Before(q.From) {
			page.Runs = append(page.Runs, r)
		}
	}
	return page, nil
}

// TestJobWaitGoesByTheNodesClock: be it ahead of this machine's or behind.
func TestJobWaitGoesByTheNodesClock(t *testing.T) {
	for name, clock := range map[string]time.Time{"ahead": time.Now().Add(time.Hour), "behind": time.Now().Add(-time.Hour)} {
		t.Run(name, func(t *testing.T) {
			run := func(id string, after time.Duration) carillon.Run {
				return carillon.Run{ID: id, Namespace: "default", Job: "a", Status: carillon.RunSucceeded, Finished: clock.Add(after)}
			}
			h := &history{runs: []carillon.Run{run("old", -time.Minute), run("last", 0), run("older", -time.Hour)}}
			node := historyClient(t, h)
			w := jobWait{key: carillon.Key{Namespace: "default", Name: "a"}, until: untilFinished}
			if r, done, err := w.look(t.Context(), node); done || err != nil {
				t.Fatalf("at first: %+v, %v", r, err)
			}
			h.runs = append([]carillon.Run{run("new", 0)}, h.runs...) // at the same time as the last one
			if r, done, err := w.look(t.Context(), node); !done || err != nil || r.ID != "new" {
				t.Errorf("then: %+v, %v, %v", r, done, err)
			}
		})
	}
}

func historyClient(t *testing.T, h *history) *client.Client {
	t.Helper()
	addr, err := listen(t.Cleanup, h, grpcapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return testClient(t, addr, func(string) {})
}

package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/server"
)

// TestAWorkerThatEndsItsSessionLosesNoRuns checks that what a session has handed out reaches the worker that
// closes its side, or goes to the next one: nothing waits for a lease.
func TestAWorkerThatEndsItsSessionLosesNoRuns(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:", Partitions: 4})
	for round := range 5 {
		c := dial(t, s)
		w := &world{t: t, sched: c, another: func() carillon.Scheduler { return c }}
		const n = 500
		jobs := make([]carillon.Job, n)
		for i := range jobs {
			jobs[i] = carillon.Job{Name: fmt.Sprint(round, "/", i), Target: carillon.WorkerQueue(queue), Lease: time.Hour,
				Data: carillon.JSON(strings.Repeat("x", 2000))}
		}
		if _, err := w.sched.PutJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		var req carillon.WorkRequest
		take := func(m carillon.WorkResponse) {
			for _, r := range m.Runs {
				got[r.ID] = true
				req.Results = append(req.Results, carillon.Result{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeSuccess})
			}
		}
		first := w.connect("first", n)
		first.until(func(m carillon.WorkResponse) bool { take(m); return len(m.Runs) > 0 })
		first.close()
		for m, err := first.Receive(t.Context()); err == nil; m, err = first.Receive(t.Context()) {
			take(m)
		}
		second := w.connect("second", n)
		for len(got) < n {
			m, err := second.Receive(t.Context())
			if err != nil {
				t.Fatalf("round %d: %d of %d runs arrived: %v", round, len(got), n, err)
			}
			take(m)
		}
		second.send(req)
		second.close()
		for _, err := second.Receive(t.Context()); err == nil; _, err = second.Receive(t.Context()) {
			continue // until the session is over, or it would take runs of the next round
		}
	}
}

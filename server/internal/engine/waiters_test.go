package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestWhatWaitsForNothingCanGoOn: a job that depends on one that does not exist says so, is found by its
// phase, and each of the documented ways makes it run or ends it.
func TestWhatWaitsForNothingCanGoOn(t *testing.T) {
	key := carillon.Key{Namespace: "default", Name: "second"}
	target := carillon.WorkerQueue("q")
	for name, c := range map[string]struct {
		act  func(ctx context.Context, n *node) error
		runs int // of the second
	}{
		"put": {func(ctx context.Context, n *node) error {
			_, err := n.PutJob(ctx, carillon.Job{Name: "first", Target: target})
			return err
		}, 1},
		"patch": {func(ctx context.Context, n *node) error {
			_, err := n.PatchJob(ctx, key, carillon.Patch{Fields: []string{"depends_on"}})
			return err
		}, 1},
		"trigger": {func(ctx context.Context, n *node) error { _, err := n.TriggerJob(ctx, key); return err }, 1},
		"delete":  {func(ctx context.Context, n *node) error { _, err := n.DeleteJob(ctx, key); return err }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				n := start(t, memory.New(memory.Options{Partitions: 4}))
				worker := n.consume("q", 5, success)
				if _, err := n.PutJob(ctx,
					carillon.Job{Name: "second", DependsOn: []string{"first"}, Target: target}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				j, err := n.GetJob(ctx, key)
				if err != nil || j.Status.Phase != carillon.PhaseWaiting ||
					!slices.Equal(j.Status.Missing, []string{"first"}) {
					t.Fatalf("it stands at %+v, %v", j.Status, err)
				}
				phase := carillon.PhaseWaiting
				page, err := n.ListJobs(ctx, carillon.JobQuery{Phase: &phase})
				if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Name != "second" {
					t.Fatalf("listed: %+v, %v", page.Jobs, err)
				}
				if err := c.act(ctx, n); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				runs := slices.DeleteFunc(worker.got(), func(r carillon.Run) bool { return r.Job != "second" })
				if len(runs) != c.runs {
					t.Errorf("%d runs, want %d", len(runs), c.runs)
				}
				n.stop()
			})
		})
	}
}

// TestASuccessOfBeforeIsNotMissed: a success from before a job began to wait does not release it, however
// often waiting jobs are checked.
func TestASuccessOfBeforeIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		worker := n.consume("q", 5, success)
		put := func(j carillon.Job) {
			j.Target = carillon.WorkerQueue("q")
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		put(carillon.Job{Name: "first", Schedule: "@every 1h", Due: carillon.In(time.Second), Repeats: 3})
		time.Sleep(time.Minute)
		put(carillon.Job{Name: "second", Schedule: "@every 1m", DependsOn: []string{"first"}})
		of := func() int {
			return len(slices.DeleteFunc(worker.got(), func(r carillon.Run) bool { return r.Job != "second" }))
		}
		time.Sleep(50 * time.Minute)
		if of() != 0 {
			t.Errorf("%d runs after a success of before", of())
		}
		time.Sleep(4 * time.Hour) // two more successes
		if of() != 2 {
			t.Errorf("%d runs after two successes", of())
		}
		if j, err := n.GetJob(ctx, carillon.Key{Namespace: "default", Name: "second"}); err != nil ||
			!slices.Equal(j.Status.Missing, []string{"first"}) {
			t.Errorf("the first has ended: %+v, %v", j.Status, err)
		}
		n.stop()
	})
}

package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/bulk"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store/memory"
)

// nobody takes no run.
type nobody struct{}

func (nobody) Offer(delivery.Owner, []delivery.Waiting)          {}
func (nobody) Deliver(int, []delivery.Delivery, []delivery.Rest) {}
func (nobody) Cancel([]delivery.Cancel)                          {}
func (nobody) Forget(int)                                        {}
func (nobody) Awaited(int, []delivery.Awaited)                   {}
func (nobody) SetPaused([]delivery.Queue)                        {}

// calls are an engine's, some of which are changed.
type calls struct {
	*engine.Engine
	listed func()            // called when jobs have been listed, or nil
	cancel func(n int) error // of the n-th cancel; or nil
	n      atomic.Int64
}

func (c *calls) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	page, err := c.Engine.ListJobs(ctx, q)
	if c.listed != nil {
		c.listed()
	}
	return page, err
}

// rig is an engine with 40 jobs, every fourth of which has the label even.
type rig struct {
	t *testing.T
	*calls
	bulk.Actions
}

func withRig(t *testing.T, do func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := engine.New(engine.Config{Store: memory.New(memory.Options{Partitions: 4})})
		if err := e.Start(t.Context(), nobody{}); err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, calls: &calls{Engine: e}}
		r.Actions = bulk.Actions{Calls: r.calls}
		var jobs []carillon.Job
		for i := range 40 {
			j := carillon.Job{Name: fmt.Sprintf("%02d", i), Schedule: "@every 1h", Target: carillon.WorkerQueue("q")}
			if i%4 == 0 {
				j.Labels = map[string]string{"fourth": fmt.Sprint(i)}
			}
			jobs = append(jobs, j)
		}
		if _, err := e.PutJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		do(r)
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// jobs makes calls until all is done, and adds up.
func (r *rig) onJobs(b carillon.BulkJobs) (sum carillon.BulkResult) {
	r.t.Helper()
	for calls := 0; calls == 0 || b.Query.PageToken != ""; calls++ {
		got, err := r.BulkJobs(r.t.Context(), b)
		if err != nil {
			r.t.Fatal(err)
		}
		sum.Matched, sum.Changed, sum.Failed = sum.Matched+got.Matched, sum.Changed+got.Changed, sum.Failed+got.Failed
		sum.Names = append(sum.Names, got.Names...)
		b.Query.PageToken = got.NextPageToken
	}
	return sum
}

func (r *rig) names(q carillon.JobQuery) (names []string) {
	r.t.Helper()
	q.PageSize = carillon.MaxBatch
	page, err := r.Engine.ListJobs(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range page.Jobs {
		names = append(names, page.Jobs[i].Name)
	}
	return names
}

// TestJobsThatAreSelectedAreChanged: all of them and no other, once, whatever the pages. A dry run says the
// same, and changes nothing.
func TestJobsThatAreSelectedAreChanged(t *testing.T) {
	withRig(t, func(r *rig) {
		paused := carillon.PhasePaused
		want := r.names(carillon.JobQuery{Label: "fourth"})
		b := carillon.BulkJobs{Query: carillon.JobQuery{Label: "fourth", PageSize: 3}, Action: carillon.JobPause,
			DryRun: true, Note: "why"}
		for _, dry := range []bool{true, false} {
			b.DryRun = dry
			if got := r.onJobs(b); got.Matched != 10 || got.Changed != 10 || !slices.Equal(got.Names, want) {
				t.Errorf("dry run %v: %+v", dry, got)
			}
			if got := r.names(carillon.JobQuery{Phase: &paused}); dry && got != nil || !dry && !slices.Equal(got, want) {
				t.Errorf("dry run %v: %v are paused", dry, got)
			}
		}
		if got := r.onJobs(b); got.Matched != 10 || got.Changed != 0 {
			t.Errorf("again: %+v", got)
		}
		resume := carillon.BulkJobs{Action: carillon.JobResume, All: true}
		if got := r.onJobs(resume); got.Matched != 40 || got.Changed != 10 {
			t.Errorf("resumed: %+v", got)
		}
		trigger := carillon.BulkJobs{Query: carillon.JobQuery{Prefix: "0", PageSize: 4}, Action: carillon.JobTrigger}
		if got := r.onJobs(trigger); got.Changed != 10 {
			t.Errorf("triggered: %+v", got)
		}
		remove := carillon.BulkJobs{Query: carillon.JobQuery{Prefix: "0", PageSize: 4}, Action: carillon.JobDelete}
		if got := r.onJobs(remove); got.Changed != 10 {
			t.Errorf("deleted: %+v", got)
		}
		if got := r.names(carillon.JobQuery{}); len(got) != 30 || got[0] != "10" {
			t.Errorf("left: %v", got)
		}
	})
}

// TestAJobThatChangesMeanwhileIsLeft: one that is put after it was selected is not deleted, and one that is
// gone is no failure.
func TestAJobThatChangesMeanwhileIsLeft(t *testing.T) {
	withRig(t, func(r *rig) {
		r.listed = func() {
			j := carillon.Job{Name: "00", Schedule: "@every 2h", Target: carillon.WorkerQueue("q")}
			if _, err := r.PutJob(r.t.Context(), j); err != nil {
				t.Error(err)
			}
			if _, err := r.DeleteJob(r.t.Context(), carillon.Key{Namespace: "default", Name: "01"}); err != nil {
				t.Error(err)
			}
		}
		got, err := r.BulkJobs(r.t.Context(), carillon.BulkJobs{Query: carillon.JobQuery{Prefix: "0"},
			Action: carillon.JobDelete})
		if err != nil || got.Matched != 10 || got.Changed != 8 || got.Failed != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		if left := r.names(carillon.JobQuery{Prefix: "0"}); !slices.Equal(left, []string{"00"}) {
			t.Errorf("left: %v", left)
		}
	})
}

func (c *calls) CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error) {
	if c.cancel != nil {
		if err := c.cancel(int(c.n.Add(1))); err != nil {
			return carillon.CancelResult{}, err
		}
	}
	return c.Engine.CancelRun(ctx, namespace, id)
}

// TestRunsThatAreSelectedAreCancelled: unfinished ones alone. Those that cannot be are told, and repeating
// the call reaches them.
func TestRunsThatAreSelectedAreCancelled(t *testing.T) {
	withRig(t, func(r *rig) {
		r.onJobs(carillon.BulkJobs{Query: carillon.JobQuery{Prefix: "0"}, Action: carillon.JobTrigger})
		<-time.After(10 * time.Second) // until they are staged
		b := carillon.BulkRuns{Query: carillon.RunQuery{Queue: "q", PageSize: carillon.MaxBatch}, Action: carillon.RunCancel,
			DryRun: true}
		if got, err := r.BulkRuns(r.t.Context(), b); err != nil || got.Matched != 10 || got.Changed != 10 {
			t.Errorf("a dry run: %+v, %v", got, err)
		}
		b.DryRun = false
		r.cancel = func(n int) error {
			if n <= 3 {
				return carillon.Errorf(carillon.Unavailable, "", "no owner")
			}
			return nil
		}
		got, err := r.BulkRuns(r.t.Context(), b)
		if err != nil || got.Changed != 7 || got.Failed != 3 || len(got.Failures) != 3 ||
			!strings.Contains(got.Failures[0].Reason, "no owner") || got.NextPageToken != "" {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := r.BulkRuns(r.t.Context(), b); err != nil || got.Matched != 3 || got.Changed != 3 {
			t.Errorf("repeated: %+v, %v", got, err)
		}
		if got, err := r.BulkRuns(r.t.Context(), b); err != nil || got.Matched != 0 || got.NextPageToken != "" {
			t.Errorf("once more: %+v, %v", got, err)
		}
	})
}

// TestABulkActionThatIsCutShort says that some may have been changed.
func TestABulkActionThatIsCutShort(t *testing.T) {
	withRig(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.t.Context())
		r.listed = cancel
		_, err := r.BulkJobs(ctx, carillon.BulkJobs{All: true, Action: carillon.JobPause})
		e, ok := errors.AsType[*carillon.Error](err)
		if !ok || e.Kind != carillon.Canceled || !e.Unknown {
			t.Errorf("%v", err)
		}
	})
}

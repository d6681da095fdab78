package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// remote is a store whose reads of several partitions take a while.
type remote struct {
	store.Store
	takes time.Duration
	fails atomic.Bool
	reads atomic.Int64
}

func (r *remote) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	r.reads.Add(1)
	if r.fails.Load() {
		return nil, context.DeadlineExceeded
	}
	records, err := r.Store.(store.Reader).ReadAll(ctx, asked)
	select {
	case <-time.After(r.takes):
		return records, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestWhatWasReadIsNotNewerThanWhatHasHappened: a job is read for a caller, and before the read returns the
// job has run and is gone.
func TestWhatWasReadIsNotNewerThanWhatHasHappened(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	synctest.Test(t, func(t *testing.T) {
		r := &remote{Store: memory.New(memory.Options{Partitions: 2}), takes: 48 * time.Hour}
		n := start(t, r)
		c := n.consume("q", 1, success)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Hour)
		defer cancel()
		job := carillon.Job{Name: "a", Due: carillon.In(24 * time.Hour), Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		before := r.reads.Load()
		key := carillon.Key{Namespace: carillon.DefaultNamespace, Name: "a"}
		if j, err := n.GetJob(ctx, key); carillon.KindOf(err) != carillon.NotFound {
			t.Errorf("after its run: %v, %v", j.Status, err)
		}
		if got := r.reads.Load() - before; got != 1 {
			t.Errorf("%d reads", got)
		}
		time.Sleep(24 * time.Hour)
		if got := c.got(); len(got) != 1 {
			t.Errorf("%d runs", len(got))
		}
		n.stop()
	})
}

// TestRunsDoNotWaitForReads: of other callers.
func TestRunsDoNotWaitForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{Store: memory.New(memory.Options{Partitions: 1}), takes: time.Second}
		n := start(t, r)
		c := n.consume("q", 100, success)
		began := time.Now()
		for i := range 10 { // the first is read for, and due, while the others are
			go func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				job := carillon.Job{Name: fmt.Sprint(i), Due: carillon.In(5 * time.Second),
					Target: carillon.WorkerQueue("q")}
				if _, err := n.PutJob(t.Context(), job); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(4 * time.Second)
		go func() { // is answered a second after it began
			_, _ = n.GetJob(t.Context(), carillon.Key{Namespace: carillon.DefaultNamespace, Name: "none"})
		}()
		time.Sleep(6 * time.Second)
		runs := c.got()
		if len(runs) != 10 {
			t.Fatalf("%d runs", len(runs))
		}
		for _, run := range runs {
			if late := run.Started.Sub(run.Scheduled); late > 10*time.Millisecond {
				t.Errorf("%s is %v late, %v after the beginning", run.Job, late, run.Started.Sub(began))
			}
		}
		n.stop()
	})
}

// TestAReadThatFails: only the callers that wait for it get the error.
func TestAReadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{Store: memory.New(memory.Options{Partitions: 4}), takes: time.Millisecond}
		n := start(t, r)
		r.fails.Store(true)
		for i, err := range putAll(n, 10) {
			if e := carillon.KindOf(err); e != carillon.Unavailable {
				t.Errorf("job %d: %v", i, err)
			}
		}
		r.fails.Store(false)
		for i, err := range putAll(n, 10) {
			if err != nil {
				t.Errorf("job %d, again: %v", i, err)
			}
		}
		n.stop()
	})
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store/memory"
)

// purgeQueue purges the worker queue "q" until nothing is left of what waited.
func purgeQueue(t *testing.T, n *node) (runs, calls int) {
	t.Helper()
	for {
		p, err := n.PurgeQueue(context.Background(), carillon.QueueKey{Name: "q"}, carillon.PurgeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		runs, calls = runs+p.Runs, calls+1
		if !p.More {
			return runs, calls
		}
	}
}

func dryPurge(t *testing.T, n *node) int {
	t.Helper()
	p, err := n.PurgeQueue(context.Background(), carillon.QueueKey{Name: "q"}, carillon.PurgeOptions{DryRun: true})
	if err != nil || p.More {
		t.Fatalf("%+v, %v", p, err)
	}
	return p.Runs
}

// unended is the status of a job without ended runs.
const unended = carillon.RunStatus(0)

// endsOf counts how the runs of jobs have ended, of which each has one at most.
func endsOf(t *testing.T, n *node, jobs ...string) map[carillon.RunStatus]int {
	t.Helper()
	ends := map[carillon.RunStatus]int{}
	for _, job := range jobs {
		page, err := n.ListRuns(context.Background(), carillon.RunQuery{Job: job})
		if err != nil || len(page.Runs) > 1 {
			t.Fatalf("%s: %+v, %v", job, page.Runs, err)
		}
		status := unended
		for _, r := range page.Runs {
			if !r.Status.Finished() {
				continue
			}
			if status = r.Status; status == carillon.RunCancelled && r.Reason != "purged" {
				t.Errorf("%s was cancelled: %s", job, r.Reason)
			}
		}
		ends[status]++
	}
	return ends
}

func names(queue string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("%s/%d", queue, i))
	}
	return all
}

// TestAPurgeOfAQueue ends all that waits in it: parked in the store under its name, in lines for permits, and
// in memory, in several calls. What a consumer has stays, and so does another queue.
func TestAPurgeOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 2}), WindowJobs: 1})
		if _, err := n.PutNamespace(ctx, carillon.Namespace{Name: "default", ConcurrencyLimits: map[string]int{"k": 0}}); err != nil {
			t.Fatal(err)
		}
		c := n.consume("q", 3, silent)
		for i := range 20 {
			if _, err := n.PutJob(ctx, carillon.Job{Name: fmt.Sprint("limited/", i), Target: carillon.WorkerQueue("q"),
				ConcurrencyKey: "k"}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		putMany(t, n, "q", 0, 3)
		synctest.Wait()
		putMany(t, n, "other", 0, 10)
		time.Sleep(2 * time.Second)
		for i := 0; i < 9000; i += 1000 {
			putMany(t, n, "q", 3+i, 1003+i)
		}
		time.Sleep(time.Second) // runs that wait for a permit are parked, too, to make room
		pauseQueue(t, n, n)
		time.Sleep(10 * time.Second) // all of it is parked
		putMany(t, n, "q", 9003, 9103)
		recurring := carillon.Job{Name: "hourly", Schedule: "@every 1h", Due: carillon.In(0), Target: carillon.WorkerQueue("q")}
		if _, err := n.PutJob(ctx, recurring); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		const wait = 9000 + 20 + 100 + 1
		if runs := dryPurge(t, n); runs != wait {
			t.Errorf("a dry run counts %d of %d", runs, wait)
		}
		if runs, calls := purgeQueue(t, n); runs != wait || calls < 2 {
			t.Errorf("%d of %d are purged, in %d calls", runs, wait, calls)
		}
		if runs := dryPurge(t, n); runs != 0 {
			t.Errorf("%d are left", runs)
		}
		if ends := endsOf(t, n, names("q", 3, 1000)...); ends[carillon.RunCancelled] != 997 {
			t.Errorf("%v", ends)
		}
		if ends := endsOf(t, n, names("other", 0, 10)...); ends[unended] != 10 {
			t.Errorf("another queue: %v", ends)
		}
		for _, r := range c.got() {
			if err := n.CompleteRun(ctx, "default", done(r)); err != nil {
				t.Error(err)
			}
		}
		if ends := endsOf(t, n, names("q", 0, 3)...); ends[carillon.RunSucceeded] != 3 {
			t.Errorf("what was in force: %v", ends)
		}
		resumeQueue(t, n, n)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if got := c.got(); len(got) != 3 {
			t.Fatalf("%s is handed out after the purge", got[3].Job)
		}
		if err := c.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := c.got(); len(got) != 4 || got[3].Job != "hourly" {
			t.Errorf("an hour later: %+v", got[3:])
		}
		n.stop()
	})
}

// TestAPurgeUnderLoad: runs come and go meanwhile. Each runs once or is cancelled; a call ends although more
// comes all the time, and is served by a node that owns nothing.
func TestAPurgeUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 3, nil)
		f.deal(func(p int) int { return p % 2 })
		f.settled()
		consumers := []*consumer{f.nodes[0].consume("q", 5, success), f.nodes[1].consume("q", 5, success)}
		var jobs []string
		purged := 0
		for i := range 30 {
			for k := range 40 {
				jobs = append(jobs, fmt.Sprint("load/", i, "/", k))
				job := carillon.Job{Name: jobs[len(jobs)-1], Target: carillon.WorkerQueue("q"), Due: carillon.In(time.Duration(k) * 10 * time.Millisecond)}
				if _, err := route(t.Context(), f, func(n *node) (carillon.PutResult, error) {
					return n.PutJob(t.Context(), job)
				}); err != nil {
					t.Fatal(err)
				}
			}
			if i%3 == 0 {
				pauseQueue(t, f.nodes[2], f.nodes...)
			}
			time.Sleep(time.Duration(i%5) * 300 * time.Millisecond)
			runs, _ := purgeQueue(t, f.nodes[2])
			purged += runs
			if i%3 == 2 {
				resumeQueue(t, f.nodes[2], f.nodes...)
			}
		}
		resumeQueue(t, f.nodes[2], f.nodes...)
		time.Sleep(time.Minute)
		synctest.Wait()
		ran := map[string]int{}
		for _, c := range consumers {
			for _, r := range c.got() {
				ran[r.Job]++
			}
		}
		ends := endsOf(t, f.nodes[0], jobs...)
		if purged == 0 || ends[carillon.RunCancelled] != purged || ends[carillon.RunSucceeded] != len(ran) ||
			len(ran)+purged != len(jobs) {
			t.Errorf("%d ran, %d are purged, of %d: %v", len(ran), purged, len(jobs), ends)
		}
		for job, n := range ran {
			if n != 1 {
				t.Errorf("%s ran %d times", job, n)
			}
		}
		f.stop()
	})
}

// TestAPurgeWhoseOwnerIsOutOfReach says that a part is done.
func TestAPurgeWhoseOwnerIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		f.deal(func(p int) int { return p })
		f.settled()
		for i := range 20 {
			if _, err := route(t.Context(), f, func(n *node) (carillon.PutResult, error) {
				return n.PutJob(t.Context(), carillon.Job{Name: fmt.Sprint(i), Target: carillon.WorkerQueue("q")})
			}); err != nil {
				t.Fatal(err)
			}
		}
		f.intercept(func(int, message.Message) error { return carillon.Errorf(carillon.Unavailable, "", "cut off") })
		p, err := f.nodes[0].PurgeQueue(t.Context(), carillon.QueueKey{Name: "q"}, carillon.PurgeOptions{})
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || !e.Unknown ||
			p.Runs == 0 || p.Runs == 20 {
			t.Errorf("%+v, %v", p, err)
		}
		f.intercept(nil)
		if rest, _ := purgeQueue(t, f.nodes[0]); p.Runs+rest != 20 {
			t.Errorf("%d and %d of 20", p.Runs, rest)
		}
		f.stop()
	})
}

// TestAPurgeOfMoreThanMemoryHolds: most of it is due in the store alone, and nothing has read it yet.
func TestAPurgeOfMoreThanMemoryHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3000
		n := startWith(t, engine.Config{Store: memory.New(memory.Options{Partitions: 1}), WindowJobs: 1})
		at := carillon.At(time.Now().Add(time.Minute))
		for i := 0; i < most; i += 1000 {
			var jobs []carillon.Job
			for k := range 1000 {
				jobs = append(jobs, carillon.Job{Name: fmt.Sprint(i + k), Due: at, Target: carillon.WorkerQueue("q")})
			}
			if _, err := n.PutJobs(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		c := n.consume("q", 1, silent)
		time.Sleep(time.Minute)
		if runs, _ := purgeQueue(t, n); runs < most-1 {
			t.Errorf("%d of %d are purged", runs, most)
		}
		time.Sleep(time.Minute)
		if got := len(c.got()); got > 1 {
			t.Errorf("%d are handed out", got)
		}
		n.stop()
	})
}

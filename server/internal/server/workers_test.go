package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// TestWorkerThatEndsItsSessionLosesNoRuns checks that what a session has handed out reaches the worker that
// closes its side, or goes to the next one: nothing waits for a lease.
func TestWorkerThatEndsItsSessionLosesNoRuns(t *testing.T) {
	s := serve(t, server.Config{Store: "memory:", Partitions: 4})
	for round := range 5 {
		c := dial(t, s)
		w := &rig{t: t, sched: c, another: func() carillon.Scheduler { return c }}
		const n = 500
		jobs := make([]carillon.Job, n)
		for i := range jobs {
			jobs[i] = carillon.Job{Name: fmt.Sprint(round, "/", i), Target: carillon.WorkerQueue(queue),
				Lease: time.Hour, Data: carillon.JSON(strings.Repeat("x", 2000))}
		}
		if _, err := w.sched.PutJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		var req carillon.WorkRequest
		take := func(m carillon.WorkResponse) {
			for _, r := range m.Runs {
				got[r.ID] = true
				req.Results = append(req.Results, carillon.Result{Token: r.Token, RunID: r.ID,
					Outcome: carillon.OutcomeSuccess})
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

// TestHeartbeatBesideAResultIsNotStale sends the result of an attempt together with a heartbeat, and right
// after one: the node hears both at once.
func TestHeartbeatBesideAResultIsNotStale(t *testing.T) {
	everywhere(t, func(w *rig) {
		holder := w.connect("holder", 1)
		for i := range 50 {
			w.put(carillon.Job{Name: fmt.Sprint("job ", i)})
			run := holder.run()
			beat := []carillon.Heartbeat{{Token: run.Token, RunID: run.ID}}
			result := []carillon.Result{{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess}}
			credit := []carillon.Credit{{Queue: queue, N: 1}}
			if i%2 == 0 {
				holder.send(carillon.WorkRequest{Heartbeats: beat, Results: result, Credits: credit})
			} else {
				holder.send(carillon.WorkRequest{Heartbeats: beat})
				holder.send(carillon.WorkRequest{Results: result, Credits: credit})
			}
			holder.acked(run.Token)
		}
		holder.close()
	})
}

func TestLostConnectionStopsNothing(t *testing.T) {
	everywhere(t, func(w *rig) {
		cuttable := &cuttable{Work: w.sched}
		began, goOn := make(chan carillon.Run, 1), make(chan struct{})
		stop := w.work(cuttable, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			began <- run
			<-goOn
			return nil
		})
		w.put(carillon.Job{Name: "long"})
		run := await(w.t, began)
		cuttable.cut()
		close(goOn)
		stop()
		w.ended(run.ID, carillon.RunSucceeded, 1)
	})
}

// cuttable is a Work whose sessions can be lost.
type cuttable struct {
	carillon.Work
	mu       sync.Mutex
	sessions []carillon.Session
}

// Connect implements carillon.Work.
func (c *cuttable) Connect(ctx context.Context, hello carillon.Hello) (carillon.Session, error) {
	s, err := c.Work.Connect(ctx, hello)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = append(c.sessions, s)
	return s, err
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sessions {
		_ = s.Close() // a lost connection says nothing
	}
}

func TestRunOfADeadWorkerIsDispatchedAgain(t *testing.T) {
	everywhere(t, func(w *rig) {
		dead := w.connect("dead", 1)
		w.put(carillon.Job{Name: "inherited", Lease: carillon.MinLease})
		first := dead.run()
		dead.close()
		heir := w.connect("heir", 1)
		second := heir.run()
		if second.ID != first.ID || second.Attempt != 2 || second.Token == first.Token {
			w.t.Errorf("first %+v, second %+v", first, second)
		}
		if d := second.Started.Sub(first.Started); d < carillon.MinLease {
			w.t.Errorf("the lease of %v ended after %v", carillon.MinLease, d)
		}
		risen := w.connect("risen", 0)
		risen.succeed(first)
		risen.stale(first.Token)
		heir.succeed(second)
		heir.acked(second.Token)
		w.ended(first.ID, carillon.RunSucceeded, 2)
		risen.close()
		heir.close()
	})
}

func TestHeartbeatsExtendTheLease(t *testing.T) {
	everywhere(t, func(w *rig) {
		began, goOn := make(chan carillon.Run, 10), make(chan struct{})
		stop := w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			began <- run
			<-goOn
			return nil
		})
		w.put(carillon.Job{Name: "long", Lease: carillon.MinLease})
		run := await(w.t, began)
		// Another run of the same lease, whose worker is dead, is what tells that the lease has passed.
		dead := w.connect("dead", 0)
		w.put(carillon.Job{Name: "other", Lease: carillon.MinLease, Target: carillon.WorkerQueue("others")})
		dead.close()
		witness := func() carillon.Session {
			s, err := w.another().Connect(w.t.Context(), carillon.Hello{Queues: []string{"others"}})
			if err != nil {
				w.t.Fatal(err)
			}
			return s
		}
		lost := raw{witness(), w.t}
		lost.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "others", N: 1}}})
		lost.run()
		lost.close()
		heir := raw{witness(), w.t}
		heir.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "others", N: 1}}})
		heir.run()
		heir.close()
		close(goOn)
		stop()
		w.ended(run.ID, carillon.RunSucceeded, 1)
	})
}

// A worker that lost its connection says its last results again; it must not wait for the partition to write
// something else.
func TestRepeatedResultIsAcknowledged(t *testing.T) {
	everywhere(t, func(w *rig) {
		for i := range 50 {
			first := w.connect("first", 1)
			w.put(carillon.Job{Name: fmt.Sprint(i)})
			run := first.run()
			first.succeed(run)
			first.close()
			second := w.connect("second", 0)
			second.succeed(run)
			second.acked(run.Token)
			second.close()
		}
	})
}

func TestGoodbyeFreesRunsAtOnce(t *testing.T) {
	everywhere(t, func(w *rig) {
		leaver, heir := w.connect("leaver", 1), w.connect("heir", 0)
		w.put(carillon.Job{Name: "passed on", Lease: carillon.MaxLease})
		first := leaver.run()
		heir.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: 1}}})
		leaver.send(carillon.WorkRequest{Goodbye: true})
		second := heir.run()
		if second.ID != first.ID || second.Attempt != 2 {
			w.t.Errorf("first %+v, second %+v", first, second)
		}
		heir.succeed(second)
		heir.acked(second.Token)
		leaver.close()
		heir.close()
	})
}

func TestLeavingWorkerReturnsUnfinishedRuns(t *testing.T) {
	everywhere(t, func(w *rig) {
		wk := worker.New(w.another(), worker.Options{Grace: time.Millisecond})
		began := make(chan carillon.Run, 1)
		worker.Handle(wk, queue, func(ctx context.Context, run carillon.Run, _ []byte) error {
			began <- run
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(context.Background())
		w.t.Cleanup(cancel)
		ended := make(chan error, 1)
		go func() { ended <- wk.Run(ctx) }()
		w.put(carillon.Job{Name: "too long", Lease: carillon.MaxLease})
		first := await(w.t, began)
		cancel()
		if err := await(w.t, ended); err == nil {
			w.t.Error("the worker gave a run back and said nothing")
		}
		heir := w.connect("heir", 1)
		if second := heir.run(); second.ID != first.ID || second.Attempt != 2 {
			w.t.Errorf("first %+v, second %+v", first, second)
		}
		heir.close()
	})
}

func TestManyRunsAreDoneExactlyOnce(t *testing.T) {
	const n = 1000
	everywhere(t, func(w *rig) {
		var mu sync.Mutex
		seen := map[string]int{}
		all := make(chan struct{})
		handle := func(_ context.Context, run carillon.Run, _ []byte) error {
			mu.Lock()
			defer mu.Unlock()
			seen[run.Job]++
			if len(seen) == n && seen[run.Job] == 1 {
				close(all)
			}
			return nil
		}
		jobs := make([]carillon.Job, n)
		for i := range jobs {
			jobs[i] = carillon.Job{Name: fmt.Sprintf("herd/%d", i), Due: carillon.In(50 * time.Millisecond),
				Target: carillon.WorkerQueue(queue)}
		}
		if _, err := w.sched.PutJobs(w.t.Context(), jobs); err != nil {
			w.t.Fatal(err)
		}
		stops := []func(){
			w.work(w.another(), worker.Options{Concurrency: 7}, handle),
			w.work(w.another(), worker.Options{Concurrency: 64}, handle),
		}
		await(w.t, all)
		for _, stop := range stops {
			stop()
		}
		for job, times := range seen {
			if times != 1 {
				w.t.Errorf("%s ran %d times", job, times)
			}
		}
		if page, err := w.sched.ListJobs(w.t.Context(), carillon.JobQuery{Prefix: "herd/"}); err != nil ||
			len(page.Jobs) != 0 {
			w.t.Errorf("left over: %d, %v", len(page.Jobs), err)
		}
	})
}

func TestRunsWaitForAWorker(t *testing.T) {
	everywhere(t, func(w *rig) {
		for i := range 100 {
			w.put(carillon.Job{Name: fmt.Sprint(i)})
		}
		got := make(chan int, 200)
		stop := w.work(w.sched, worker.Options{}, func(_ context.Context, run carillon.Run, _ []byte) error {
			got <- run.Attempt
			return nil
		})
		for range 100 {
			if attempt := await(w.t, got); attempt != 1 {
				w.t.Errorf("attempt %d", attempt)
			}
		}
		stop()
		if len(got) > 0 {
			w.t.Errorf("%d runs too many", len(got))
		}
	})
}

func TestRefusedWorkerSaysWhy(t *testing.T) {
	everywhere(t, func(w *rig) {
		wk := worker.New(w.sched, worker.Options{Namespace: "NOT A NAMESPACE"})
		worker.Handle(wk, queue, func(context.Context, carillon.Run, []byte) error { return nil })
		if err := wk.Run(w.t.Context()); !errors.Is(err, carillon.InvalidArgument) {
			w.t.Errorf("run: %v", err)
		}
	})
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// node is an engine with its hub over a store, in a bubble.
type node struct {
	*engine.Engine
	hub *dispatch.Hub
	t   testing.TB
}

func start(t testing.TB, s store.Store) *node {
	t.Helper()
	return startWith(t, engine.Config{Store: s})
}

func startWith(t testing.TB, c engine.Config) *node {
	t.Helper()
	e := engine.New(c)
	n := &node{Engine: e, t: t, hub: dispatch.New(e, dispatch.Options{Accept: worker.Accept(worker.Options{})})}
	if err := e.Start(context.Background(), n.hub); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) stop() {
	n.t.Helper()
	if err := n.hub.Close(); err != nil {
		n.t.Error(err)
	}
	if err := n.Stop(context.Background()); err != nil {
		n.t.Error(err)
	}
}

// consumer is a worker that records its runs and answers what handle returns.
type consumer struct {
	mu   sync.Mutex // of runs and told
	runs []carillon.Run
	told told
	done chan struct{}
	carillon.Session
}

// told is what a consumer was told about attempts.
type told struct {
	acks, stale, confirmed int
	cancels                []string
}

func (n *node) consume(queue string, credits int, handle func(carillon.Run) *carillon.Result) *consumer {
	n.t.Helper()
	return n.consumeBy(n.hub, queue, credits, handle)
}

// consumeHere is consume for a consumer in this process, which gets durable attempts only.
func (n *node) consumeHere(queue string, credits int,
	handle func(carillon.Run) *carillon.Result) *consumer {
	n.t.Helper()
	return n.consumeBy(n.hub.Local(), queue, credits, handle)
}

func (n *node) consumeBy(hub carillon.Work, queue string, credits int,
	handle func(carillon.Run) *carillon.Result) *consumer {
	n.t.Helper()
	return n.consumeIn(hub, "default", queue, credits, handle)
}

func (n *node) consumeIn(hub carillon.Work, namespace, queue string, credits int,
	handle func(carillon.Run) *carillon.Result) *consumer {
	n.t.Helper()
	s, err := hub.Connect(context.Background(),
		carillon.Hello{Namespace: namespace, Queues: []string{queue}, WorkerID: "w"})
	if err != nil {
		n.t.Fatal(err)
	}
	c := &consumer{Session: s, done: make(chan struct{})}
	if err := s.Send(context.Background(),
		carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: credits}}}); err != nil {
		n.t.Fatal(err)
	}
	go c.run(queue, handle)
	return c
}

func (c *consumer) run(queue string, handle func(carillon.Run) *carillon.Result) {
	defer close(c.done)
	for {
		msg, err := c.Receive(context.Background())
		if err != nil {
			return
		}
		var req carillon.WorkRequest
		c.mu.Lock()
		c.told.acks += len(msg.Acks)
		c.told.stale += len(msg.Stale)
		c.told.confirmed += len(msg.Confirmed)
		c.told.cancels = append(c.told.cancels, msg.Cancel...)
		for _, r := range msg.Runs {
			c.runs = append(c.runs, r)
			if res := handle(r); res != nil {
				res.Token, res.RunID = r.Token, r.ID
				req.Results = append(req.Results, *res)
				req.Credits = append(req.Credits, carillon.Credit{Queue: queue, N: 1})
			}
		}
		c.mu.Unlock()
		if len(req.Results) > 0 && c.Send(context.Background(), req) != nil {
			return
		}
	}
}

func (c *consumer) got() []carillon.Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]carillon.Run(nil), c.runs...)
}

// heard returns what the consumer was told so far.
func (c *consumer) heard() told {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.told
	t.cancels = slices.Clone(t.cancels)
	return t
}

func success(carillon.Run) *carillon.Result {
	return &carillon.Result{Outcome: carillon.OutcomeSuccess}
}

func TestAJobFiresOnceOnTimeAndIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{}))
		c := n.consume("q", 10, success)
		began := time.Now()
		put, err := n.PutJob(ctx, carillon.Job{Name: "hello/world", Due: carillon.In(2 * time.Second),
			Target: carillon.WorkerQueue("q")})
		if err != nil {
			t.Fatal(err)
		}
		if !put.Created || put.Job.Status.Generation != 1 {
			t.Fatalf("put: %+v", put)
		}
		time.Sleep(2*time.Second - 1)
		synctest.Wait()
		if len(c.got()) != 0 {
			t.Fatal("early")
		}
		time.Sleep(1 * time.Nanosecond)
		synctest.Wait()
		runs := c.got()
		if len(runs) != 1 || runs[0].Scheduled.Sub(began) != 2*time.Second {
			t.Fatalf("runs %+v", runs)
		}
		if _, err := n.GetJob(ctx, carillon.Key{Namespace: "default",
			Name: "hello/world"}); !errors.Is(err, carillon.NotFound) {
			t.Fatalf("the job is still there: %v", err)
		}
		page, err := n.ListRuns(ctx, carillon.RunQuery{Job: "hello/world"})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != carillon.RunSucceeded ||
			page.Runs[0].ID != runs[0].ID {
			t.Fatalf("history %+v %v", page, err)
		}
		run, err := n.GetRun(ctx, "default", runs[0].ID)
		if err != nil || run.Status != carillon.RunSucceeded {
			t.Fatalf("run %+v %v", run, err)
		}
		if _, err := n.GetRun(ctx, "other", runs[0].ID); !errors.Is(err, carillon.NotFound) {
			t.Fatalf("another namespace sees the run: %v", err)
		}
		n.stop()
	})
}

func TestHerdIsDeliveredExactlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 20_000
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{}))
		at := carillon.At(time.Now().Add(time.Minute))
		for i := 0; i < jobs; i += 1000 {
			batch := make([]carillon.Job, 1000)
			for k := range batch {
				batch[k] = carillon.Job{Name: fmt.Sprintf("herd/%d", i+k), Due: at, Target: carillon.WorkerQueue("q")}
			}
			if _, err := n.PutJobs(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		c := n.consume("q", 500, success)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		seen := map[string]int{}
		for _, r := range c.got() {
			seen[r.Job]++
			if r.Attempt != 1 {
				t.Fatalf("attempt %d", r.Attempt)
			}
		}
		if len(seen) != jobs || len(c.got()) != jobs {
			t.Fatalf("%d jobs, %d runs", len(seen), len(c.got()))
		}
		if s := n.Stats(); s.Resident != 0 || s.InFlight != 0 {
			t.Fatalf("left in memory: %+v", s)
		}
		page, err := n.ListJobs(ctx, carillon.JobQuery{})
		if err != nil || len(page.Jobs) != 0 {
			t.Fatalf("left in the store: %d %v", len(page.Jobs), err)
		}
		n.stop()
	})
}

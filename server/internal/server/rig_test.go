package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/worker"
)

// patience is how long a test waits for something that should happen at once. It is long because machines are
// busy.
const patience = 30 * time.Second

// rig is a running scheduler as a caller sees it, in one of several ways.
type rig struct {
	t     *testing.T
	sched carillon.Scheduler
	// another connects once more, as from another process; the scheduler itself if that makes no difference.
	another func() carillon.Scheduler
}

// everywhere runs a test against a scheduler in the same process, in a bubble where time costs nothing, and
// against one over gRPC on loopback.
func everywhere(t *testing.T, test func(w *rig)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			node, err := server.Start(t.Context(), server.Config{Store: "memory:", Partitions: 4})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeNode(t, node) })
			sched := node.Scheduler()
			test(&rig{t: t, sched: sched, another: func() carillon.Scheduler { return sched }})
		})
	})
	t.Run("over gRPC", func(t *testing.T) {
		s := serve(t, server.Config{Store: "memory:", Partitions: 4})
		another := func() carillon.Scheduler { return dial(t, s) }
		test(&rig{t: t, sched: another(), another: another})
	})
}

func closeNode(t *testing.T, node *server.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := node.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// serve runs a server on free ports until the test ends.
func serve(t *testing.T, c server.Config) *server.Server {
	t.Helper()
	s, stop := serveUntil(t, c)
	t.Cleanup(stop)
	return s
}

// serveUntil runs a server on free ports until stop is called.
func serveUntil(t *testing.T, c server.Config) (s *server.Server, stop func()) {
	t.Helper()
	s, end := serveFailing(t, c)
	stopped := false
	return s, func() {
		if stopped {
			return
		}
		stopped = true
		if err := end(); err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

// serveFailing is serveUntil of a server that need not end well.
func serveFailing(t *testing.T, c server.Config) (s *server.Server, stop func() error) {
	t.Helper()
	c.GRPC, c.HTTP = "127.0.0.1:0", "127.0.0.1:0"
	if c.DrainGrace == 0 {
		c.DrainGrace = -1
	}
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, func() error {
		cancel()
		return await(t, ended)
	}
}

func dial(t *testing.T, s *server.Server) *client.Client {
	t.Helper()
	return dialAt(t, s.GRPCAddr())
}

func dialAt(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// await is the next value of a channel.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v := <-c:
		return v
	case <-late.C:
		t.Fatalf("nothing came within %v", patience)
		panic("unreachable")
	}
}

// work runs a worker of the queue until stop is called; stop waits for its end.
func (w *rig) work(sched carillon.Work, o worker.Options,
	handle func(context.Context, carillon.Run, []byte) error) (stop func()) {
	w.t.Helper()
	wk := worker.New(sched, o)
	worker.Handle(wk, queue, handle)
	return w.running(wk)
}

// running runs a worker until stop is called; stop waits for its end.
func (w *rig) running(wk *worker.Worker) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := await(w.t, ended); err != nil {
			w.t.Errorf("worker: %v", err)
		}
	}
}

// queue is the one that all jobs of these tests go to.
const queue = "work"

// put stores a job for the queue.
func (w *rig) put(j carillon.Job) carillon.PutResult {
	w.t.Helper()
	if j.Target.Kind() == "" {
		j.Target = carillon.WorkerQueue(queue)
	}
	p, err := w.sched.PutJob(w.t.Context(), j)
	if err != nil {
		w.t.Fatalf("put %s: %v", j.Name, err)
	}
	return p
}

// ended checks how a run ended. Whoever calls it has waited for that, for example for the end of the worker,
// which comes when all its results are durable.
func (w *rig) ended(id string, status carillon.RunStatus, attempts int) carillon.Run {
	w.t.Helper()
	r, err := w.sched.GetRun(w.t.Context(), carillon.DefaultNamespace, id)
	if err != nil {
		w.t.Fatalf("get run: %v", err)
	}
	if r.Status != status || r.Attempt != attempts {
		w.t.Errorf("run %s of %s is %v after %d attempts, not %v after %d", id, r.Job, r.Status, r.Attempt,
			status, attempts)
	}
	return r
}

// gone checks that a job is no more.
func (w *rig) gone(name string) {
	w.t.Helper()
	if _, err := w.sched.GetJob(w.t.Context(), key(name)); !errors.Is(err, carillon.NotFound) {
		w.t.Errorf("job %s is still there: %v", name, err)
	}
}

// raw is a worker's session without the SDK.
type raw struct {
	carillon.Session
	t *testing.T
}

// connect opens a session with credits for n runs.
func (w *rig) connect(id string, n int) raw {
	w.t.Helper()
	s, err := w.another().Connect(w.t.Context(), carillon.Hello{Queues: []string{queue}, WorkerID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	r := raw{s, w.t}
	if n > 0 {
		r.send(carillon.WorkRequest{Credits: []carillon.Credit{{Queue: queue, N: n}}})
	}
	return r
}

func (r raw) send(req carillon.WorkRequest) {
	r.t.Helper()
	if err := r.Send(r.t.Context(), req); err != nil {
		r.t.Fatal(err)
	}
}

// succeed reports the success of a run.
func (r raw) succeed(run carillon.Run) {
	r.t.Helper()
	r.send(carillon.WorkRequest{Results: []carillon.Result{{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess}}})
}

// until receives until wanted finds what it looks for.
func (r raw) until(wanted func(carillon.WorkResponse) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		msg, err := r.Receive(ctx)
		if err != nil {
			r.t.Fatalf("receive: %v", err)
		}
		if wanted(msg) {
			return
		}
	}
}

// run is the next run.
func (r raw) run() (run carillon.Run) {
	r.t.Helper()
	r.until(func(m carillon.WorkResponse) bool {
		if len(m.Runs) > 0 {
			run = m.Runs[0]
		}
		return len(m.Runs) > 0
	})
	return run
}

func (r raw) acked(token string) {
	r.t.Helper()
	r.until(func(m carillon.WorkResponse) bool {
		if slices.Contains(m.Stale, token) {
			r.t.Fatal("the token is stale")
		}
		return slices.Contains(m.Acks, token)
	})
}

func (r raw) stale(token string) {
	r.t.Helper()
	r.until(func(m carillon.WorkResponse) bool {
		if slices.Contains(m.Acks, token) {
			r.t.Fatal("the token was accepted")
		}
		return slices.Contains(m.Stale, token)
	})
}

func (r raw) close() {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

// key is the key of a job of these tests.
func key(name string) carillon.Key {
	return carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// containing is how many lines contain a text.
func (l *lines) containing(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

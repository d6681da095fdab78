package multisessiontest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/worker"
)

// runWorker runs a worker of the SDK until stop is called.
func runWorker(t *testing.T, w carillon.Work, concurrency int,
	handle func(ctx context.Context, run carillon.Run) error) (stop func()) {
	wk := worker.New(meter{w, t}, worker.Options{Concurrency: concurrency, ID: "w", Grace: time.Minute})
	worker.Handle(wk, "q", func(ctx context.Context, run carillon.Run, _ carillon.Data) error {
		return handle(ctx, run)
	})
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() { left <- wk.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-left; err != nil {
			t.Errorf("worker: %v", err)
		}
	}
}

// sleeper is a handler that sleeps, and counts how many do at once.
type sleeper struct {
	now, most atomic.Int32
	took      func() time.Duration
}

func (b *sleeper) handle(context.Context, carillon.Run) error {
	n := b.now.Add(1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	<-time.After(b.took())
	b.now.Add(-1)
	return nil
}

// open is a session with all nodes and n credits.
func open(t *testing.T, w *rig, n int) carillon.Session {
	t.Helper()
	s, err := w.Connect(t.Context(), carillon.Hello{Queues: []string{"q"}, WorkerID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.living()) > 1 {
		if r, err := s.Receive(t.Context()); err != nil || len(r.Nodes) != len(w.living()) {
			t.Fatalf("nodes: %+v, %v", r, err)
		}
	}
	synctest.Wait()
	send(t, s, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: n}}})
	return s
}

// shut closes a session and receives what is left.
func shut(t *testing.T, s carillon.Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for {
		if _, err := s.Receive(context.Background()); err != nil {
			return
		}
	}
}

func send(t *testing.T, s carillon.Session, r carillon.WorkRequest) {
	t.Helper()
	if err := s.Send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// receiveRuns is the next n runs.
func receiveRuns(t *testing.T, s carillon.Session, n int) []carillon.Run {
	t.Helper()
	var runs []carillon.Run
	for len(runs) < n {
		r, err := s.Receive(t.Context())
		if err != nil {
			t.Fatalf("after %d of %d runs: %v", len(runs), n, err)
		}
		runs = append(runs, r.Runs...)
	}
	return runs
}

func results(runs []carillon.Run) []carillon.Result {
	var rs []carillon.Result
	for i := range runs {
		rs = append(rs, carillon.Result{Token: runs[i].Token, RunID: runs[i].ID, Outcome: carillon.OutcomeSuccess})
	}
	return rs
}

func beats(runs []carillon.Run) (bs []carillon.Heartbeat) {
	for i := range runs {
		bs = append(bs, carillon.Heartbeat{Token: runs[i].Token, RunID: runs[i].ID})
	}
	return bs
}

// expireLeases ends the attempts of runs as their leases do, and returns once the worker has been asked for a
// sign of life.
func expireLeases(w *rig, s carillon.Session, address string, runs []carillon.Run) {
	w.t.Helper()
	for i := range runs {
		w.nodes[address].hub.Cancel([]delivery.Cancel{{Queue: queue, Token: runs[i].Token, Unheard: true}})
	}
	for {
		r, err := s.Receive(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Ping {
			return
		}
	}
}

// withRunsOfB tests a worker with n runs of node b, of three, and 4 credits that are unused.
func withRunsOfB(t *testing.T, n int, test func(w *rig, s carillon.Session, runs []carillon.Run)) {
	synctest.Test(t, func(t *testing.T) {
		w := newRig(t, "a", "b", "c")
		s := open(t, w, n+4)
		w.put("b", 0, n)
		test(w, s, receiveRuns(t, s, n))
		shut(t, s)
	})
}

// keepBeating sends heartbeats as the SDK does.
func keepBeating(w *rig, s carillon.Session, runs []carillon.Run, times int) {
	w.t.Helper()
	for range times {
		<-time.After(lease / 4)
		send(w.t, s, carillon.WorkRequest{Heartbeats: beats(runs)})
	}
}

// acks receives the answers to results; each comes once.
func acks(t *testing.T, s carillon.Session, n int) {
	t.Helper()
	seen := map[string]bool{}
	for len(seen) < n {
		r, err := s.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range r.Acks {
			if seen[token] {
				t.Errorf("%s was answered twice", token)
			}
			seen[token] = true
		}
		if len(r.Stale) > 0 {
			t.Errorf("%s is stale", r.Stale[0])
		}
	}
}

// nothingMore receives until a further run comes from a node, with which no answer does.
func nothingMore(w *rig, s carillon.Session, address string) {
	w.t.Helper()
	w.put(address, 3, 4)
	for {
		r, err := s.Receive(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if len(r.Acks)+len(r.Stale) > 0 {
			w.t.Errorf("answered again: %v, %v", r.Acks, r.Stale)
		}
		if len(r.Runs) > 0 {
			return
		}
	}
}

// reportBy sends results, does something and receives their answers, which must come soon.
func reportBy(w *rig, s carillon.Session, rs []carillon.Result, meanwhile func(), within time.Duration) {
	w.t.Helper()
	began := time.Now()
	send(w.t, s, carillon.WorkRequest{Results: rs})
	meanwhile()
	late := time.AfterFunc(time.Minute, func() { _ = s.Close() }) // then receiving fails
	defer late.Stop()
	acks(w.t, s, len(rs))
	if took := time.Since(began); took > within {
		w.t.Errorf("it took %v", took)
	}
}

// alive is how many attempts have their leases.
func (w *rig) alive() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// credits is how many deliveries may come now from a node.
func (w *rig) credits(address string) int {
	sum := 0
	for _, q := range w.nodes[address].hub.Queues() {
		sum += q.Credits
	}
	return sum
}

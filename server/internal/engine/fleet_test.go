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

	"github.com/carillonhq/carillon/server/internal/message"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// fleet is several nodes over one store, in a bubble. Each finds the others by asking all of them.
type fleet struct {
	t       testing.TB
	store   store.Store
	nodes   []*node
	all     []int // partitions
	between struct {
		sync.Mutex
		call func(p int, what message.Message) error // or nil
	}
}

// intercept has call called before a node is asked by a peer, also by several at once; an error is the answer.
func (f *fleet) intercept(call func(p int, what message.Message) error) {
	f.between.Lock()
	defer f.between.Unlock()
	f.between.call = call
}

// intercepted calls what [fleet.intercept] was given.
func (f *fleet) intercepted(p int, what message.Message) error {
	f.between.Lock()
	call := f.between.call
	f.between.Unlock()
	if call == nil {
		return nil
	}
	return call(p, what)
}

func startFleet(t testing.TB, s store.Store, nodes int, change func(i int, c *engine.Config)) *fleet {
	t.Helper()
	f := &fleet{t: t, store: s}
	for p := range s.Meta().Partitions {
		f.all = append(f.all, p)
	}
	for i := range nodes {
		c := engine.Config{Store: s, Node: fmt.Sprint("node-", i), Standby: true, Peers: peers{f},
			LeaseTTL: 4 * time.Second}
		if change != nil {
			change(i, &c)
		}
		f.nodes = append(f.nodes, startWith(t, c))
	}
	return f
}

// deal assigns to each node the partitions for which to returns its index.
func (f *fleet) deal(to func(p int) int) {
	for i, n := range f.nodes {
		n.Assign(slices.DeleteFunc(slices.Clone(f.all), func(p int) bool { return to(p) != i }))
	}
}

// settled waits until every node owns what it is to own.
func (f *fleet) settled() {
	f.t.Helper()
	for range 1000 {
		time.Sleep(10 * time.Millisecond)
		if !slices.ContainsFunc(f.nodes, func(n *node) bool { return n.Ready() != nil }) &&
			f.owned() == len(f.all) {
			return
		}
	}
	f.t.Fatal("the partitions have no owners")
}

func (f *fleet) owned() (n int) {
	for _, node := range f.nodes {
		n += len(node.Holdings())
	}
	return n
}

func (f *fleet) stop() {
	f.t.Helper()
	for _, n := range f.nodes {
		n.stop()
	}
}

// route lets the first node that does not refuse it do f, as a router does.
func route[T any](ctx context.Context, f *fleet, do func(n *node) (T, error)) (T, error) {
	for {
		var zero T
		err := error(carillon.Errorf(carillon.Unavailable, "", "nobody is there: %w", message.ErrNotOwner))
		for _, n := range f.nodes {
			var v T
			if v, err = do(n); !errors.Is(err, message.ErrNotOwner) {
				return v, err
			}
		}
		select {
		case <-ctx.Done():
			return zero, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// peers finds the owner of a partition among the fleet.
type peers struct{ *fleet }

// Ask implements [message.Partitions].
func (ps peers) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	return route(ctx, ps.fleet, func(n *node) (any, error) {
		if err := ps.intercepted(p, m); err != nil {
			return nil, err
		}
		return n.Ask(ctx, p, m)
	})
}

// TestPartitionsMoveUnderLoad: while jobs are put, and run by a worker at each node, every run comes once and
// none is lost.
func TestPartitionsMoveUnderLoad(t *testing.T) {
	for _, lanes := range []int{0, 3, 8} {
		synctest.Test(t, func(t *testing.T) {
			f := startFleet(t, memory.New(memory.Options{Partitions: 8}),
				3, func(_ int, c *engine.Config) { c.Lanes = lanes })
			f.deal(func(p int) int { return p % 3 })
			f.settled()
			slow := func(carillon.Run) *carillon.Result {
				time.Sleep(20 * time.Millisecond)
				return &carillon.Result{Outcome: carillon.OutcomeSuccess}
			}
			var workers []*consumer
			for _, n := range f.nodes {
				workers = append(workers, n.consume("q", 5, slow))
			}
			const jobs = 300
			for i := range jobs {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				j := carillon.Job{Name: fmt.Sprint(i), Due: carillon.In(50 * time.Millisecond),
					Target: carillon.WorkerQueue("q")}
				if _, err := route(ctx, f, func(n *node) (carillon.PutResult, error) {
					return n.PutJob(ctx, j)
				}); err != nil {
					t.Fatal(err)
				}
				cancel()
				time.Sleep(10 * time.Millisecond)
				if i%50 == 49 {
					f.deal(func(p int) int { return (p + i/50) % 3 })
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			seen := map[string]int{}
			acks := 0
			for _, w := range workers {
				for _, r := range w.got() {
					if seen[r.Job]++; r.Attempt != 1 {
						t.Errorf("job %s: attempt %d", r.Job, r.Attempt)
					}
				}
				acks += w.heard().acks
			}
			if len(seen) != jobs || acks != jobs {
				t.Errorf("%d of %d jobs have run, %d results were acknowledged", len(seen), jobs, acks)
			}
			for job, n := range seen {
				if n > 1 {
					t.Errorf("job %s ran %d times", job, n)
				}
			}
			f.stop()
		})
	}
}

// TestAResultThroughTheOldNode: the new owner accepts it, and a heartbeat too.
func TestAResultThroughTheOldNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		f.deal(func(int) int { return 0 })
		f.settled()
		old := f.nodes[0].consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
		j := carillon.Job{Name: "a", Target: carillon.WorkerQueue("q"), Lease: 10 * time.Second}
		if _, err := f.nodes[0].PutJob(context.Background(), j); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		run := old.got()[0]
		f.deal(func(int) int { return 1 })
		f.settled()
		for range 10 {
			time.Sleep(5 * time.Second)
			if err := old.Send(context.Background(),
				carillon.WorkRequest{Heartbeats: []carillon.Heartbeat{{Token: run.Token, RunID: run.ID}}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		result := carillon.Result{Token: run.Token, RunID: run.ID, Outcome: carillon.OutcomeSuccess}
		if err := old.Send(context.Background(),
			carillon.WorkRequest{Results: []carillon.Result{result}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, err := f.nodes[1].GetRun(context.Background(), "default", run.ID); err != nil ||
			got.Status != carillon.RunSucceeded || got.Attempt != 1 {
			t.Errorf("%+v %v", got, err)
		}
		if old.heard().acks != 1 {
			t.Errorf("%d acknowledgements", old.heard().acks)
		}
		f.stop()
	})
}

// inFlight returns how many deliveries a node's hub believes to be with consumers.
func (n *node) inFlight() (sum int) {
	for _, q := range n.hub.Queues() {
		sum += q.InFlight
	}
	return sum
}

// TestAnAttemptThatIsNeverAnswered: it gives its slot back, even if its term ends meanwhile: by a fault of
// the store, before or after the attempt is durable, or because the partition moves.
func TestAnAttemptThatIsNeverAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		moves bool
	}{
		"lost at once":  {10 * time.Millisecond, false},
		"lost":          {3 * time.Second, false},
		"moved at once": {10 * time.Millisecond, true},
		"moved":         {3 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &faulty{Store: memory.New(memory.Options{Partitions: 2})}
				f := startFleet(t, s, 2, nil)
				f.deal(func(int) int { return 0 })
				f.settled()
				ctx := context.Background()
				n := f.nodes[0]
				n.consume("q", 1, func(carillon.Run) *carillon.Result { return nil })
				j := carillon.Job{Name: f.at(0, 0), Target: carillon.WorkerQueue("q"), Lease: 5 * time.Second,
					Timeout: 30 * time.Second}
				if _, err := n.PutJob(ctx, j); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.after)
				if n.inFlight() != 1 {
					t.Fatalf("%d in flight", n.inFlight())
				}
				if c.moves {
					f.deal(func(int) int { return 1 })
				} else {
					s.fail(func(func() error) error { return errors.New("the disk is full") })
					if _, err := n.PutJob(ctx,
						carillon.Job{Name: f.at(0, 1), Target: carillon.WorkerQueue("other")}); err == nil {
						t.Fatal("it was put")
					}
				}
				time.Sleep(10 * time.Second)
				s.fail(nil)
				f.settled()
				time.Sleep(40 * time.Second)
				if _, err := f.nodes[0].DeleteJobs(ctx, "default", "j"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if n.inFlight() != 0 {
					t.Errorf("%d in flight", n.inFlight())
				}
				f.stop()
			})
		})
	}
}

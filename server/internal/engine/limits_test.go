package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store/memory"
)

// town is a node that is restarted and whose store fails from time to time, with workers that count their
// attempts.
type town struct {
	t      *testing.T
	rng    *rand.Rand
	store  *faulty
	window int
	n      *node

	mu      sync.Mutex
	life    int
	inForce map[string]int // by concurrency key
	most    map[string]int
	peak    map[string]int
	jobs    map[string]string // concurrency key by name
	wg      sync.WaitGroup
}

func (w *town) chance(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// slow is a store that takes a while.
func (w *town) slow(apply func() error) error {
	time.Sleep(time.Duration(w.chance(50)) * time.Millisecond)
	return apply()
}

func (w *town) start() {
	e := engine.New(engine.Config{Store: w.store, Partition: partition.Config{WindowJobs: w.window}})
	w.n = &node{Engine: e, t: w.t, hub: dispatch.New(e,
		dispatch.Options{Accept: worker.Accept(worker.Options{})})}
	if err := e.Start(context.Background(), w.n.hub); err != nil {
		w.t.Fatal(err)
	}
	w.life++
	for i, queues := range [][]string{{"q1"}, {"q1", "q2"}} {
		work := w.n.hub.Connect
		if i == 0 {
			work = w.n.hub.Local().Connect
		}
		s, err := work(context.Background(), carillon.Hello{Namespace: "default", Queues: queues})
		if err != nil {
			w.t.Fatal(err)
		}
		var credits []carillon.Credit
		for _, q := range queues {
			credits = append(credits, carillon.Credit{Queue: q, N: 2})
		}
		if err := s.Send(context.Background(), carillon.WorkRequest{Credits: credits}); err != nil {
			w.t.Fatal(err)
		}
		w.wg.Go(func() { w.serve(s) })
	}
}

func (w *town) serve(s carillon.Session) {
	for {
		msg, err := s.Receive(context.Background())
		if err != nil {
			return
		}
		for _, r := range msg.Runs {
			w.count(r.Job, 1)
			takes := time.Duration(1+w.chance(2000)) * time.Millisecond
			fails := w.chance(5) == 0
			w.wg.Go(func() {
				time.Sleep(takes)
				w.count(r.Job, -1)
				res := carillon.Result{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeSuccess}
				if fails {
					res.Outcome = carillon.OutcomeFailure
				}
				_ = s.Send(context.Background(), carillon.WorkRequest{ // the session may be over
					Results: []carillon.Result{res}, Credits: []carillon.Credit{{Queue: r.Queue, N: 1}}})
			})
		}
	}
}

func (w *town) count(job string, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := w.jobs[job]
	if key == "" {
		return
	}
	w.inForce[key] += by
	w.peak[key] = max(w.peak[key], w.inForce[key])
	if most := w.most[key]; w.inForce[key] > most {
		w.t.Errorf("%d in force of %s, whose limit is %d", w.inForce[key], key, most)
	}
}

func (w *town) limit(key string, n int) {
	w.mu.Lock()
	w.most[key] = n
	limits := maps.Clone(w.most)
	w.mu.Unlock()
	for {
		_, err := w.n.PutNamespace(context.Background(), carillon.Namespace{ConcurrencyLimits: limits})
		if err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}

func (w *town) put(i int) {
	keys := []string{"k1", "k1", "k2", ""}
	name := fmt.Sprint("job", i)
	j := carillon.Job{
		Name: name, ConcurrencyKey: keys[w.chance(4)],
		Due:    carillon.In(time.Duration(w.chance(20_000)) * time.Millisecond),
		Target: carillon.WorkerQueue(fmt.Sprint("q", 1+w.chance(2))), Lease: 30 * time.Second,
		Priority: []carillon.Priority{carillon.PriorityNormal, carillon.PriorityCritical,
			carillon.PriorityLow}[w.chance(3)], FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(3),
	}
	w.mu.Lock()
	w.jobs[name] = j.ConcurrencyKey
	w.mu.Unlock()
	if _, err := w.n.PutJob(context.Background(), j); err != nil {
		w.t.Fatal(err)
	}
}

// disturb makes one random event happen.
func (w *town) disturb() {
	switch w.chance(6) {
	case 0:
		w.n.stop()
		w.start()
	case 1:
		w.store.fail(func(func() error) error { return errors.New("the disk is full") })
		time.Sleep(300 * time.Millisecond)
		w.store.fail(w.slow)
	case 2:
		w.limit("k1", w.most["k1"]+1)
	case 3:
		key := carillon.Key{Namespace: "default", Name: fmt.Sprint("job", w.chance(60))}
		if _, err := w.n.DeleteJob(context.Background(), key); err == nil {
			w.mu.Lock()
			// its attempt may go on for a while at a worker that has been told to stop
			delete(w.jobs, key.Name)
			w.inForce = map[string]int{}
			w.mu.Unlock()
		}
	default:
	}
	time.Sleep(time.Duration(w.chance(5000)) * time.Millisecond)
}

// TestLimits: through failures and restarts there are never more attempts in force than the limit, and
// everything ends.
func TestLimits(t *testing.T) {
	seeds := uint64(24)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			w := &town{t: t, rng: rand.New(rand.NewPCG(seed, 14)),
				store:   &faulty{Store: memory.New(memory.Options{Partitions: 4})},
				inForce: map[string]int{}, most: map[string]int{}, peak: map[string]int{}, jobs: map[string]string{}}
			if seed%2 == 1 {
				w.window = 8
			}
			w.store.fail(w.slow)
			w.start()
			w.limit("k1", 1+int(seed%3))
			w.limit("k2", 2)
			for i := range 60 {
				w.put(i)
			}
			for range 12 {
				w.disturb()
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			page, err := w.n.ListJobs(context.Background(), carillon.JobQuery{})
			if err != nil || len(page.Jobs) != 0 {
				t.Errorf("seed %d: %d jobs are stuck; %s %v", seed, len(page.Jobs), w.n.PermitsLeft(), err)
			}
			if left := w.n.PermitsLeft(); left != "" || w.n.Stats().InFlight != 0 {
				t.Errorf("seed %d: left %q, %+v", seed, left, w.n.Stats())
			}
			if w.peak["k2"] != 2 && seed > 2 {
				t.Logf("seed %d: at most %d of k2 were in force", seed, w.peak["k2"])
			}
			w.n.stop()
			w.wg.Wait()
		})
	}
}

// TestAHungRunGivesItsTokenBack: two permits for five jobs, one of which hangs and one of which always fails.
func TestAHungRunGivesItsTokenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		n := start(t, memory.New(memory.Options{Partitions: 4}))
		if _, err := n.PutNamespace(ctx, carillon.Namespace{ConcurrencyLimits: map[string]int{"tenant": 2}}); err != nil {
			t.Fatal(err)
		}
		const lease = 10 * time.Second
		began := time.Now()
		var mu sync.Mutex
		free := map[string]time.Duration{}
		hung := 0
		c := n.consume("q", 5, func(r carillon.Run) *carillon.Result {
			mu.Lock()
			defer mu.Unlock()
			free[r.Job] = time.Since(began)
			switch r.Job {
			case "hangs":
				if hung++; hung == 1 {
					return nil
				}
			case "fails":
				return &carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no"}
			}
			return success(r)
		})
		for _, name := range []string{"hangs", "fails"} {
			j := carillon.Job{Name: name, ConcurrencyKey: "tenant", Target: carillon.WorkerQueue("q"), Lease: lease,
				FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(2)}
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		// the excess runs out
		if _, err := n.PutNamespace(ctx, carillon.Namespace{ConcurrencyLimits: map[string]int{"tenant": 1}}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			j := carillon.Job{Name: fmt.Sprint(i), ConcurrencyKey: "tenant",
				Target: carillon.WorkerQueue("q"), Lease: lease}
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		ran := func() (n int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for i := range 3 {
				if _, ok := free[fmt.Sprint(i)]; ok {
					n++
				}
			}
			return n
		}
		time.Sleep(lease - time.Second)
		if n := ran(); n != 0 {
			t.Errorf("%d ran although the hung run has the token", n)
		}
		time.Sleep(2 * time.Second)
		if n := ran(); n != 3 {
			t.Errorf("%d of 3 have run 1 s after the token was free", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		attempts := map[string]int{}
		for _, r := range c.got() {
			attempts[r.Job]++
		}
		page, err := n.ListRuns(ctx, carillon.RunQuery{Statuses: []carillon.RunStatus{carillon.RunDead}})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Job != "fails" || len(page.Runs[0].Errors) != 3 {
			t.Errorf("dead: %+v %v", page.Runs, err)
		}
		if attempts["hangs"] != 2 || attempts["fails"] != 3 || n.PermitsLeft() != "" {
			t.Errorf("attempts %v, left %s", attempts, n.PermitsLeft())
		}
		n.stop()
	})
}

// TestALimitThatGoes: what waited for it runs. A limit of 0 lets nothing run. Both hold after a restart.
func TestALimitThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 2})
		n := start(t, s)
		if _, err := n.PutNamespace(ctx, carillon.Namespace{ConcurrencyLimits: map[string]int{"k": 0}}); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			j := carillon.Job{Name: fmt.Sprint(i), ConcurrencyKey: "k", Target: carillon.WorkerQueue("q")}
			if _, err := n.PutJob(ctx, j); err != nil {
				t.Fatal(err)
			}
		}
		c := n.consume("q", 1000, success)
		time.Sleep(time.Minute)
		n.stop()
		if got := len(c.got()); got != 0 {
			t.Fatalf("%d ran under a limit of 0", got)
		}
		n = start(t, s)
		c = n.consume("q", 1000, success)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(c.got()); got != 0 {
			t.Fatalf("%d ran under a limit of 0 after a restart", got)
		}
		set, err := n.GetNamespace(ctx, "")
		if err != nil || len(set.ConcurrencyLimits) != 1 || set.Name != "default" {
			t.Fatalf("%+v %v", set, err)
		}
		if _, err := n.PutNamespace(ctx, carillon.Namespace{Generation: set.Generation}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := len(c.got()); got != 200 || n.PermitsLeft() != "" {
			t.Fatalf("%d of 200 ran when the limit was gone; %s", got, n.PermitsLeft())
		}
		n.stop()
	})
}

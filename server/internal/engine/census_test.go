package engine_test

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

func workerQueue(name string) delivery.Queue {
	return delivery.Queue{Namespace: "default", Kind: "worker", Address: name}
}

// store puts a job as it is.
func (n *node) store(j carillon.Job) {
	n.t.Helper()
	if _, err := n.PutJob(n.t.Context(), j); err != nil {
		n.t.Fatal(err)
	}
}

func TestStagedAndDeadAreKnownAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		n := start(t, s)
		c := n.consume("doomed", 10, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no"}
		})
		n.store(carillon.Job{Name: "doomed", Target: carillon.WorkerQueue("doomed"),
			FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)})
		due := time.Now()
		for i := range 30 {
			n.store(carillon.Job{Name: fmt.Sprint("lonely/", i), Target: carillon.WorkerQueue("lonely"),
				Due: carillon.At(due)})
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		want := delivery.Backlog{Staged: 30, Oldest: due.UnixNano()}
		n.stop()
		<-c.done

		n = start(t, s)
		synctest.Wait()
		if got := n.Backlog()[workerQueue("lonely")]; got != want {
			t.Errorf("at once: %+v, want %+v", got, want)
		}
		if got := n.Dead(); len(got) != 1 || got["default"] != 1 {
			t.Errorf("dead: %v", got)
		}
		c = n.consume("lonely", 100, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeSuccess}
		})
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if got := n.Backlog(); len(got) != 0 {
			t.Errorf("nothing waits any more: %+v", got)
		}
		n.stop()
		<-c.done
	})
}

// TestAQueueIsSeenAsItsRunsAreStaged: soon after they have been, and gone as soon when they have ended,
// wherever the censuses of all partitions fall.
func TestAQueueIsSeenAsItsRunsAreStaged(t *testing.T) {
	const jobs, soon = 30, 2 * time.Second
	for later := range 11 {
		synctest.Test(t, func(t *testing.T) {
			staged := make(chan int, jobs)
			c := engine.Config{Store: memory.New(memory.Options{})}
			c.Events.Staged = func(_ delivery.Queue, n int) { staged <- n }
			n := startWith(t, c)
			time.Sleep(time.Minute + time.Duration(later)*900*time.Millisecond)
			due := time.Now()
			for i := range jobs {
				n.store(carillon.Job{Name: fmt.Sprint(i), Target: carillon.WorkerQueue("q"), Due: carillon.At(due)})
			}
			within := func(d time.Duration) {
				t.Helper()
				for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Millisecond) {
					synctest.Wait() // while runs are being parked they can be in two numbers
					if b := n.Backlog()[workerQueue("q")]; b.Len() > jobs {
						t.Errorf("%+v of %d jobs", b, jobs)
					}
				}
				synctest.Wait()
			}
			for left := jobs; left > 0; {
				left -= <-staged
			}
			within(soon)
			want := delivery.Backlog{Staged: jobs, Oldest: due.UnixNano()}
			if got := n.Backlog()[workerQueue("q")]; got != want {
				t.Errorf("%v after all have been staged: %+v, want %+v", soon, got, want)
			}
			var ended atomic.Int32
			w := n.consume("q", jobs, func(carillon.Run) *carillon.Result {
				ended.Add(1)
				return &carillon.Result{Outcome: carillon.OutcomeSuccess}
			})
			for ended.Load() < jobs {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(soon)
			synctest.Wait()
			if got := n.Backlog(); len(got) != 0 {
				t.Errorf("%v after the last has ended: %+v", soon, got)
			}
			n.stop()
			<-w.done
		})
	}
}

// TestCountingTakesLittle: however often queues come and go.
func TestCountingTakesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &cuttableStore{Store: memory.New(memory.Options{}), takes: 200 * time.Millisecond}
		n := start(t, s)
		time.Sleep(time.Minute)
		before := s.spent.Load()
		const queues = 300
		for i := range queues {
			n.store(carillon.Job{Name: fmt.Sprint(i), Target: carillon.WorkerQueue(fmt.Sprint(i))})
			time.Sleep(time.Second)
		}
		took := time.Duration(s.spent.Load() - before)
		if most := queues*time.Second/100 + s.takes; took > most || took < most/2 {
			t.Errorf("counted for %v of %v", took, queues*time.Second)
		}
		n.stop()
	})
}

func TestWhatWaitsForAPermitIsInItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		if _, err := n.PutNamespace(t.Context(),
			carillon.Namespace{Name: "default", ConcurrencyLimits: map[string]int{"k": 1}}); err != nil {
			t.Fatal(err)
		}
		c := n.consume("q", 100, func(carillon.Run) *carillon.Result { return nil })
		began := time.Now()
		for i := range 8 {
			n.store(carillon.Job{Name: fmt.Sprint("job/", i), Target: carillon.WorkerQueue("q"), ConcurrencyKey: "k",
				Timeout: time.Hour, Lease: time.Hour})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := n.Backlog()
		if b := got[workerQueue("q")]; len(got) != 1 || b.Ready != 0 || b.Permits+b.Staged != 7 || b.Permits == 0 ||
			b.Oldest != began.UnixNano() {
			t.Errorf("%+v, since %d", got, began.UnixNano())
		}
		n.stop()
		<-c.done
	})
}

// TestJobsAreCountedByPhase once they have been counted: those in a phase soon, those that are scheduled later.
func TestJobsAreCountedByPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		n := start(t, s)
		for i := range 30 {
			n.store(carillon.Job{Name: fmt.Sprint("later/", i), Target: carillon.WorkerQueue("q"),
				Due: carillon.In(time.Hour)})
		}
		for i := range 7 {
			n.store(carillon.Job{Name: fmt.Sprint("paused/", i), Target: carillon.WorkerQueue("q"), Paused: true})
		}
		for i := range 5 {
			n.store(carillon.Job{Name: fmt.Sprint("due/", i), Target: carillon.WorkerQueue("q")})
		}
		want := map[carillon.Phase]int{carillon.PhasePaused: 7, carillon.PhaseStaged: 5}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if got := n.JobsByPhase(); !maps.Equal(got, want) {
			t.Errorf("soon: %v, want %v", got, want)
		}
		want[carillon.PhaseScheduled] = 30
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := n.JobsByPhase(); !maps.Equal(got, want) {
			t.Errorf("later: %v, want %v", got, want)
		}
		c := n.consume("q", 100, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeSuccess}
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := n.JobsByPhase(); got[carillon.PhaseStaged] != 0 || got[carillon.PhaseScheduled] != 30 {
			t.Errorf("after the due ones have ended: %v", got)
		}
		n.stop()
		<-c.done
	})
}

func TestMissingJobsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{}))
		n.store(carillon.Job{Name: "late", Target: carillon.WorkerQueue("q"), DependsOn: []string{"nobody"},
			Due: carillon.In(0)})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := n.Missing(); got != 1 {
			t.Errorf("%d missing", got)
		}
		n.store(carillon.Job{Name: "nobody", Target: carillon.WorkerQueue("q"), Due: carillon.In(time.Hour)})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := n.Missing(); got != 0 {
			t.Errorf("%d missing, and none is", got)
		}
		n.stop()
	})
}

// cuttableStore is a store that one node can be cut off from, and whose counts take a while.
type cuttableStore struct {
	*memory.Store
	cut   atomic.Bool
	takes time.Duration // a count
	spent atomic.Int64  // ns, in counts
}

type cuttableShard struct {
	store.Shard
	s *cuttableStore
}

type cuttableLeaser struct {
	store.Leaser
	s *cuttableStore
}

func (s *cuttableStore) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := s.Store.Shard(p, term)
	return cuttableShard{shard, s}, err
}

func (s *cuttableStore) ApplyGroup(ctx context.Context, writes []store.Write) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.ApplyGroup(ctx, under(writes, func(s cuttableShard) store.Shard { return s.Shard }))
}

func (s cuttableShard) Apply(ctx context.Context, b *store.Batch) error {
	if err := s.s.err(); err != nil {
		return err
	}
	return s.Shard.Apply(ctx, b)
}

func (s *cuttableStore) Leaser() store.Leaser { return cuttableLeaser{s.Store.Leaser(), s} }

func (l cuttableLeaser) Claim(ctx context.Context, node string, ps []int,
	ttl time.Duration) ([]store.Term, error) {
	if err := l.s.err(); err != nil {
		return nil, err
	}
	return l.Leaser.Claim(ctx, node, ps, ttl)
}

func (l cuttableLeaser) Renew(ctx context.Context, node string, held []store.Holding,
	ttl time.Duration) ([]store.Holding, error) {
	if err := l.s.err(); err != nil {
		return nil, err
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

func (s *cuttableStore) err() error {
	if s.cut.Load() {
		return fmt.Errorf("%w: cut off", store.ErrUnknown)
	}
	return nil
}

// inAll returns the sum of the figures of a fleet's nodes.
type inAll struct{ staged, ready, dead, missing int }

func (f *fleet) counted() (sum inAll) {
	for _, n := range f.nodes {
		for _, b := range n.Backlog() {
			sum.staged += b.Staged
			sum.ready += b.Ready
		}
		for _, dead := range n.Dead() {
			sum.dead += dead
		}
		sum.missing += n.Missing()
	}
	return sum
}

// backlog leaves staged runs, dead runs, and waits for jobs that do not exist in all partitions.
func (f *fleet) backlog(ctx context.Context) (want inAll) {
	f.t.Helper()
	put := func(j carillon.Job) {
		if _, err := route(ctx, f, func(n *node) (carillon.PutResult, error) {
			return n.PutJob(ctx, j)
		}); err != nil {
			f.t.Fatal(err)
		}
	}
	want = inAll{staged: 40, dead: 30, missing: 20}
	for _, n := range f.nodes {
		n.consume("doomed", 10, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeFailure, Message: "no"}
		})
	}
	for i := range want.staged {
		put(carillon.Job{Name: fmt.Sprint("lonely/", i), Target: carillon.WorkerQueue("lonely")})
	}
	for i := range want.dead {
		put(carillon.Job{Name: fmt.Sprint("doomed/", i), Target: carillon.WorkerQueue("doomed"),
			FailurePolicy: carillon.Constant(time.Second).WithMaxRetries(0)})
	}
	for i := range want.missing {
		put(carillon.Job{Name: fmt.Sprint("late/", i), Target: carillon.WorkerQueue("q"),
			DependsOn: []string{"nobody"}})
	}
	return want
}

// never checks, often during some seconds, that no figure counts anything twice.
func (f *fleet) never(more inAll) {
	f.t.Helper()
	for began := time.Now(); time.Since(began) < 8*time.Second; {
		time.Sleep(25 * time.Millisecond)
		got := f.counted()
		if got.staged > more.staged || got.dead > more.dead || got.missing > more.missing {
			f.t.Errorf("%v after it began, the nodes count %+v in all, and there is %+v", time.Since(began), got, more)
			return
		}
	}
}

// counts checks the figures of all nodes.
func (f *fleet) counts(want inAll) {
	f.t.Helper()
	if got := f.counted(); got != want {
		f.t.Errorf("the nodes count %+v in all, and there is %+v", got, want)
	}
}

func TestCountsOfAllNodesAddUp(t *testing.T) {
	for name, takes := range map[string]time.Duration{"quick": 0, "slow": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Options{Partitions: 8})
				f := startFleet(t, s, 3, func(i int, c *engine.Config) {
					c.Store = &cuttableStore{Store: s, takes: takes * time.Duration(i)}
				})
				f.deal(func(p int) int { return p % 3 })
				f.settled()
				want := f.backlog(t.Context())
				f.never(want)
				time.Sleep(10 * time.Minute) // a slow count is made seldom
				f.counts(want)
				for i := range 4 { // partitions move to and fro
					f.deal(func(p int) int { return (p + i) % 2 })
					f.never(want)
				}
				f.deal(func(int) int { return 2 })
				f.never(want)
				time.Sleep(10 * time.Minute) // a slow count is made seldom
				f.counts(want)
				for i, n := range f.nodes[:2] {
					if b := n.Backlog(); len(b)+len(n.Dead())+n.Missing() > 0 {
						t.Errorf("node %d has nothing and counts %+v, %v, %d", i, b, n.Dead(), n.Missing())
					}
				}
				f.stop()
			})
		})
	}
}

func TestANodeThatIsCutOffCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{Partitions: 8})
		stores := make([]*cuttableStore, 3)
		f := startFleet(t, s, 3, func(i int, c *engine.Config) {
			stores[i] = &cuttableStore{Store: s}
			c.Store = stores[i]
		})
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		want := f.backlog(t.Context())
		f.never(want)
		time.Sleep(10 * time.Minute) // a slow count is made seldom
		f.counts(want)
		stores[0].cut.Store(true)
		for i, n := range f.nodes[1:] { // the others have been told; the node itself hears nothing
			var parts []int
			for _, p := range f.all {
				if p%2 == i {
					parts = append(parts, p)
				}
			}
			n.Assign(parts)
		}
		f.never(want)
		time.Sleep(10 * time.Minute) // a slow count is made seldom
		f.counts(want)
		stores[0].cut.Store(false)
		f.deal(func(p int) int { return p % 3 })
		f.never(want)
		time.Sleep(10 * time.Minute) // a slow count is made seldom
		f.counts(want)
		f.stop()
	})
}

// Count implements [store.Counter].
func (s *cuttableStore) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	counts, err := s.Store.Count(ctx, partitions)
	time.Sleep(s.takes)
	s.spent.Add(int64(s.takes))
	return counts, err
}

func TestMissingJobsAreOfTheTermThatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, memory.New(memory.Options{Partitions: 2}), 2, nil)
		f.deal(func(int) int { return 0 })
		f.settled()
		f.nodes[0].store(carillon.Job{Name: "late", Target: carillon.WorkerQueue("q"),
			DependsOn: []string{"nobody"}})
		time.Sleep(time.Minute)
		f.counts(inAll{missing: 1})
		f.deal(func(int) int { return 1 })
		f.settled()
		f.nodes[1].store(carillon.Job{Name: "nobody", Target: carillon.WorkerQueue("q"),
			Due: carillon.In(time.Hour)})
		f.deal(func(int) int { return 0 })
		f.settled()
		f.counts(inAll{})
		f.stop()
	})
}

func TestAttemptsInForceCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 30
		f := startFleet(t, memory.New(memory.Options{Partitions: 8}), 3, nil)
		f.deal(func(p int) int { return p % 3 })
		f.settled()
		for _, n := range f.nodes {
			n.consume("q", runs, func(carillon.Run) *carillon.Result { return nil })
		}
		for i := range runs {
			j := carillon.Job{Name: fmt.Sprint(i), Target: carillon.WorkerQueue("q"), Lease: time.Hour}
			if _, err := route(t.Context(), f,
				func(n *node) (carillon.PutResult, error) { return n.PutJob(t.Context(), j) }); err != nil {
				t.Fatal(err)
			}
		}
		inForce := func() (engines, hubs int) {
			for _, n := range f.nodes {
				engines += n.Stats().InFlight
				hubs += n.inFlight()
			}
			return engines, hubs
		}
		time.Sleep(5 * time.Second)
		for i := range 3 {
			f.deal(func(p int) int { return (p + i) % 3 })
			for range 100 {
				time.Sleep(10 * time.Millisecond)
				if engines, hubs := inForce(); engines > runs || hubs != runs {
					t.Errorf("%d attempts are in force, %d are with workers, and there are %d", engines, hubs, runs)
				}
			}
			f.settled()
			if engines, hubs := inForce(); engines != runs || hubs != runs {
				t.Errorf("settled: %d attempts are in force, %d are with workers, and there are %d", engines, hubs, runs)
			}
		}
		f.stop()
	})
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// awayStore is a store that can be away: its server hangs, or refuses at once.
type awayStore struct {
	*landlord
	writes *faulty
	gate   chan struct{} // closed when it is back; nil: it is there
}

// newAwayStore returns a store of two partitions, and what the engine is to use of it.
func newAwayStore() (*awayStore, store.Store) {
	l := &landlord{Store: memory.New(memory.Options{Partitions: 2})}
	s := &awayStore{landlord: l, writes: &faulty{Store: l}}
	return s, struct{ store.Store }{s.writes} // without groups, as a server has none
}

var errUnreached = fmt.Errorf("%w: no route to host", store.ErrUnknown)

// leave makes the store go away.
func (s *awayStore) leave(hangs bool) {
	gate := make(chan struct{})
	s.gate = gate
	s.set(errUnreached, false)
	s.writes.fail(func(apply func() error) error {
		if !hangs {
			return errUnreached
		}
		<-gate
		return apply()
	})
}

// back makes it come back.
func (s *awayStore) back() {
	s.writes.fail(nil)
	s.set(nil, false)
	close(s.gate)
}

// fired is when runs of jobs left, by name.
type fired struct {
	mu sync.Mutex
	at map[string][]carillon.Run
}

// handle returns a handler that notes runs and answers success, unless the job's name says that it goes on.
func (f *fired) handle(r carillon.Run) *carillon.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[string][]carillon.Run{}
	}
	f.at[r.Job] = append(f.at[r.Job], r)
	if strings.HasPrefix(r.Job, "long") {
		return nil
	}
	return success(r)
}

func (f *fired) of(job string) []carillon.Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]carillon.Run(nil), f.at[job]...)
}

// TestCriticalRunsLeaveWhileTheStoreIsAway, on time, until the lease ends, and nothing else does. Afterwards
// what has left is told, and results count that were reported meanwhile.
func TestCriticalRunsLeaveWhileTheStoreIsAway(t *testing.T) {
	for name, hangs := range map[string]bool{"it hangs": true, "it refuses": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				s, over := newAwayStore()
				n := startWith(t, engine.Config{Store: over, LeaseTTL: time.Minute, FireCritical: true})
				var f fired
				c := n.consume("q", 10, f.handle)
				at := map[string]time.Time{}
				put := func(name string, after time.Duration, change func(*carillon.Job)) {
					j := carillon.Job{Name: name, Due: carillon.In(after), Priority: carillon.PriorityCritical,
						Lease: 10 * time.Minute, Target: carillon.WorkerQueue("q")}
					change(&j)
					if _, err := n.PutJob(ctx, j); err != nil {
						t.Fatal(err)
					}
					at[name] = time.Now().Add(after)
				}
				as := func(*carillon.Job) {}
				for i := range 40 {
					put(fmt.Sprint("critical/", i), 5*time.Second+time.Duration(i)*time.Second, as)
				}
				put("long/1", 20*time.Second, as)
				put("long/2", 53700*time.Millisecond, as) // just before the end of the lease: the store never hears of it
				put("long/3", 30*time.Second, func(j *carillon.Job) { j.Timeout = time.Minute })
				put("long/4", 20*time.Second, func(j *carillon.Job) { j.Timeout = 10 * time.Second })
				n.consume("one", 1, f.handle)
				put("limited/one", 10*time.Second, func(j *carillon.Job) {
					j.ConcurrencyKey, j.Target = "one", carillon.WorkerQueue("one")
				})
				put("critical/one", 15*time.Second, func(j *carillon.Job) { j.Target = carillon.WorkerQueue("one") })
				put("later", 100*time.Second, as)
				put("normal", 10*time.Second, func(j *carillon.Job) { j.Priority = carillon.PriorityNormal })
				put("limited", 10*time.Second, func(j *carillon.Job) { j.ConcurrencyKey = "k" })
				put("recurring", 12*time.Second, func(j *carillon.Job) { j.Schedule, j.Due = "@every 10s", carillon.In(12*time.Second) })
				if _, err := n.PutNamespace(ctx, carillon.Namespace{Name: "default",
					ConcurrencyLimits: map[string]int{"k": 1, "one": 1}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				s.leave(hangs)
				// A write, or nothing would be noticed but by the renewal of the leases.
				for i := range 4 {
					go func() {
						if _, err := n.PutJob(ctx, carillon.Job{Name: fmt.Sprint("put/", i),
							Target: carillon.WorkerQueue("other")}); err == nil && !hangs {
							t.Error("a put was acknowledged while the store was away")
						}
					}()
				}
				time.Sleep(48 * time.Second)
				synctest.Wait()
				for name, due := range at {
					runs := f.of(name)
					want := 0
					if strings.HasPrefix(name, "critical") || name == "long/1" || name == "long/3" || name == "long/4" || name == "recurring" {
						want = 1
					}
					if len(runs) != want {
						t.Errorf("%s: %d runs, want %d", name, len(runs), want)
						continue
					}
					if want > 0 && runs[0].Metadata["carillon-store"] != "away" {
						t.Errorf("%s does not say that the store is away: %v", name, runs[0].Metadata)
					}
					if want > 0 && (runs[0].Started.Before(due) || runs[0].Started.Sub(due) > 3*time.Second) {
						t.Errorf("%s left %v after it was due", name, runs[0].Started.Sub(due))
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				ended := []string{f.of("long/4")[0].Token, f.of("long/3")[0].Token}
				if got := c.heard(); got.acks+got.stale > 0 || !slices.Equal(got.cancels, ended) {
					t.Errorf("told while the store was away: %+v, want cancels of long/4 and long/3 whose time is over", got)
				}
				if got := len(f.of("later")); got != 0 {
					t.Errorf("%d runs left after the end of the lease", got)
				}
				s.back()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if err := n.Ready(); err != nil {
					t.Error(err)
				}
				for name := range at {
					runs := f.of(name)
					if len(runs) == 0 {
						t.Errorf("%s was lost", name)
						continue
					}
					if name == "long/3" || name == "long/4" {
						continue // its attempt has timed out
					}
					run, err := n.GetRun(ctx, "default", runs[0].ID)
					if err != nil {
						t.Errorf("%s left, and is denied: %v", name, err)
						continue
					}
					want := carillon.RunSucceeded
					if name == "long/1" || name == "long/2" {
						want = carillon.RunRunning
					}
					if run.Status != want || run.Attempt != 1 {
						t.Errorf("%s: %v after %d attempts", name, run.Status, run.Attempt)
					}
					for _, again := range runs {
						if again.ID == run.ID && again.Token != runs[0].Token {
							t.Errorf("%s left under two tokens", name)
						}
					}
					if strings.HasPrefix(name, "critical") && len(runs) > 1 {
						t.Errorf("%s left %d times, though it was reported", name, len(runs))
					}
				}
				n.stop()
			})
		})
	}
}

// TestNothingLeavesByDefault while the store is away.
func TestNothingLeavesByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, over := newAwayStore()
		n := startWith(t, engine.Config{Store: over, LeaseTTL: time.Minute})
		var f fired
		n.consume("q", 10, f.handle)
		if _, err := n.PutJob(context.Background(), carillon.Job{Name: "a", Due: carillon.In(20 * time.Second),
			Priority: carillon.PriorityCritical, Target: carillon.WorkerQueue("q")}); err != nil {
			t.Fatal(err)
		}
		s.leave(false)
		_, err := n.PutJob(context.Background(), carillon.Job{Name: "b", Target: carillon.WorkerQueue("q")})
		if !errors.Is(err, carillon.Unavailable) {
			t.Errorf("put: %v", err)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := len(f.of("a")); got != 0 {
			t.Errorf("%d runs", got)
		}
		s.back()
		time.Sleep(10 * time.Second)
		n.stop()
		if got := len(f.of("a")); got != 1 {
			t.Errorf("%d runs when it was back", got)
		}
	})
}

// TestOvertimeEndsWithTheNextClaim: while a term is granted and not loaded yet nothing leaves, since that term
// has to know what has left before it.
func TestOvertimeEndsWithTheNextClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s, over := newAwayStore()
		n := startWith(t, engine.Config{Store: over, LeaseTTL: time.Minute, FireCritical: true})
		var f fired
		n.consume("q", 1000, f.handle)
		for i := range 30 {
			if _, err := n.PutJob(ctx, carillon.Job{Name: fmt.Sprint("long/", i), Priority: carillon.PriorityCritical,
				Due:    carillon.In(10*time.Second + time.Duration(i)*500*time.Millisecond),
				Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
		s.leave(false)
		for i := range 4 {
			_, _ = n.PutJob(ctx, carillon.Job{Name: fmt.Sprint("put/", i), Target: carillon.WorkerQueue("other")}) // refused
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		gate := make(chan struct{})
		s.writes.fail(func(apply func() error) error { // terms are granted, and cannot begin
			<-gate
			return apply()
		})
		s.set(nil, false)
		time.Sleep(5 * time.Second)
		close(gate)
		s.writes.fail(nil)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for i := range 30 {
			runs := f.of(fmt.Sprint("long/", i))
			if len(runs) == 0 {
				t.Errorf("run %d was lost", i)
			}
			for _, r := range runs {
				if r.Token != runs[0].Token {
					t.Errorf("run %d left under two tokens", i)
				}
			}
		}
		n.stop()
	})
}

// gatedWay is a way to the store that can hold what is submitted.
type gatedWay struct {
	to   store.Submitter
	held *atomic.Bool

	mu   sync.Mutex
	wait func()
}

// Submit implements [engine.Way].
func (w *gatedWay) Submit(_ []int, writes []store.Write, done func(error)) {
	if w.held.Load() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.wait = func() { w.to.Submit(writes, done) }
		return
	}
	w.to.Submit(writes, done)
}

// Holds implements [engine.Way].
func (w *gatedWay) Holds() bool { return w.held.Load() }

// Quiet implements [engine.Way].
func (w *gatedWay) Quiet() bool { return w.held.Load() }

func (w *gatedWay) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wait != nil {
		w.wait()
		w.wait = nil
	}
}

// TestHeldAndSlowWritesAreNoOutage: while writes are held on their way nothing leaves; while one is slow critical
// runs do, and none says that the store is away, which answers.
func TestHeldAndSlowWritesAreNoOutage(t *testing.T) {
	for _, isHeld := range []bool{true, false} {
		t.Run(fmt.Sprint(isHeld), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				s, over := newAwayStore()
				var held atomic.Bool
				var ways []*gatedWay
				n := startWith(t, engine.Config{Store: over, LeaseTTL: time.Minute, FireCritical: true,
					ToStore: engine.ToStore{Way: func(to store.Submitter) engine.Way {
						ways = append(ways, &gatedWay{to: to, held: &held})
						return ways[len(ways)-1]
					}}})
				var f fired
				n.consume("q", 10, f.handle)
				for i := range 10 {
					if _, err := n.PutJob(ctx, carillon.Job{Name: fmt.Sprint("a/", i), Due: carillon.In(10 * time.Second),
						Priority: carillon.PriorityCritical, Target: carillon.WorkerQueue("q")}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Second)
				gate := make(chan struct{})
				if held.Store(isHeld); !isHeld {
					s.writes.fail(func(apply func() error) error {
						<-gate
						return apply()
					})
				}
				for i := range 4 {
					go func() {
						_, _ = n.PutJob(ctx, carillon.Job{Name: fmt.Sprint("put/", i), Target: carillon.WorkerQueue("other")})
					}()
				}
				count := func() (left int) {
					for i := range 10 {
						for _, r := range f.of(fmt.Sprint("a/", i)) {
							left++
							if says, ok := r.Metadata["carillon-store"]; ok {
								t.Errorf("%s says that the store is %s", r.Job, says)
							}
						}
					}
					return left
				}
				time.Sleep(20 * time.Second)
				synctest.Wait()
				if got, want := count(), map[bool]int{true: 0, false: 10}[isHeld]; got != want {
					t.Errorf("%d runs left, want %d", got, want)
				}
				if _, err := n.StoreAway(); err != nil {
					t.Errorf("the store is away: %v", err)
				}
				s.writes.fail(nil)
				held.Store(false)
				close(gate)
				for _, w := range ways {
					w.release()
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if got := count(); got != 10 {
					t.Errorf("%d runs left in the end", got)
				}
				n.stop()
			})
		})
	}
}

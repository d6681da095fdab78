package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// faulty is a store whose next Apply ends as the test says.
type faulty struct {
	store.Store
	mu   sync.Mutex
	next func(apply func() error) error // nil: apply
}

type faultyShard struct {
	store.Shard
	f *faulty
}

func (f *faulty) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := f.Store.Shard(p, term)
	return faultyShard{s, f}, err
}

func (s faultyShard) Apply(ctx context.Context, b *store.Batch) error {
	return s.f.do(func() error { return s.Shard.Apply(ctx, b) })
}

func (f *faulty) ApplyGroup(ctx context.Context, writes []store.Write) error {
	below := under(writes, func(s faultyShard) store.Shard { return s.Shard })
	return f.do(func() error { return f.Store.(store.Grouper).ApplyGroup(ctx, below) })
}

// submitting is a faulty store that calls back, before Submit returns or later.
type submitting struct {
	*faulty
	later bool
}

func (s submitting) Submit(writes []store.Write, done func(error)) {
	f := func() { done(s.ApplyGroup(context.Background(), writes)) }
	if !s.later {
		f()
		return
	}
	go f()
}

// ways are the ways in which a store takes batches.
var ways = map[string]func(f *faulty) store.Store{
	"applied":                 func(f *faulty) store.Store { return f },
	"submitted, at once":      func(f *faulty) store.Store { return submitting{f, false} },
	"submitted, called later": func(f *faulty) store.Store { return submitting{f, true} },
	"applied one by one": func(f *faulty) store.Store {
		return struct{ store.Store }{f} // hides that it groups
	},
}

func (f *faulty) do(apply func() error) error {
	f.mu.Lock()
	fault := f.next
	f.mu.Unlock()
	if fault == nil {
		return apply()
	}
	return fault(apply)
}

func (f *faulty) fail(fault func(apply func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = fault
}

// TestFailedCommits: a put whose batch fails is not acknowledged, its caller learns whether the outcome is
// known, and the partition is owned again and serves.
func TestFailedCommits(t *testing.T) {
	disk := errors.New("no space left on device")
	for name, c := range map[string]struct {
		fault   func(apply func() error) error
		unknown bool
		stored  bool
	}{
		"certainly not applied": {func(func() error) error { return disk }, false, false},
		"unknown and not applied": {func(func() error) error { return fmt.Errorf("%w: lost", store.ErrUnknown) },
			true, false},
		"unknown and applied": {func(apply func() error) error {
			return errors.Join(apply(), fmt.Errorf("%w: lost", store.ErrUnknown))
		}, true, true},
		"fenced": {func(func() error) error { return store.ErrFenced }, false, false},
	} {
		for way, take := range ways {
			t.Run(name+", "+way, func(t *testing.T) { failedCommit(t, take, c.fault, c.unknown, c.stored) })
		}
	}
}

// failedCommit checks what becomes of a put and its partition after a fault.
func failedCommit(t *testing.T, take func(*faulty) store.Store, fault func(func() error) error,
	unknown, stored bool) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 2})}
		n := start(t, take(f))
		job := carillon.Job{Name: "a", Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
		f.fail(fault)
		_, err := n.PutJob(ctx, job)
		var e *carillon.Error
		if !errors.As(err, &e) || e.Kind != carillon.Unavailable || e.Unknown != unknown {
			t.Fatalf("got %+v", err)
		}
		f.fail(nil)
		time.Sleep(2 * time.Second)
		if err := n.Ready(); err != nil {
			t.Fatalf("not ready again: %v", err)
		}
		job.Namespace = "default"
		_, err = n.GetJob(ctx, job.Key())
		if got := err == nil; got != stored {
			t.Fatalf("stored: %v (%v), want %v", got, err, stored)
		}
		if _, err := n.PutJob(ctx, job); err != nil {
			t.Fatalf("does not serve again: %v", err)
		}
		n.stop()
	})
}

// TestOneGroupIsInFlight: what comes in while the store works on a group is the next one. Nothing is answered
// before its group is durable, and Stop waits for both.
func TestOneGroupIsInFlight(t *testing.T) {
	for way, take := range ways {
		if way == "submitted, at once" {
			continue // no group is ever in flight
		}
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
				n := start(t, take(f))
				groups, goOn := 0, make(chan struct{})
				f.fail(func(apply func() error) error {
					groups++
					<-goOn
					return apply()
				})
				answered := make(chan int, 3)
				put := func(i int) {
					go func() {
						if _, err := n.PutJob(context.Background(), carillon.Job{Name: fmt.Sprint(i),
							Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}); err != nil {
							t.Error(err)
						}
						answered <- i
					}()
					synctest.Wait()
				}
				for i := range 3 {
					put(i)
				}
				stopped := make(chan struct{})
				go func() {
					n.stop()
					close(stopped)
				}()
				synctest.Wait()
				for want := 1; want <= 2; want++ { // the second group has two puts
					if groups != want || len(answered) != want-1 {
						t.Errorf("%d groups have been sent and %d puts answered, want %d and %d", groups,
							len(answered), want, want-1)
					}
					goOn <- struct{}{}
					synctest.Wait()
				}
				<-stopped
				if len(answered) != 3 {
					t.Errorf("%d of 3 puts are answered", len(answered))
				}
			})
		})
	}
}

// TestABusyPartitionDelaysNoOther: on a store that takes one batch at a time, even if one lane is asked for.
func TestABusyPartitionDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 4})}
		n := startWith(t, engine.Config{Store: ways["applied one by one"](f), Lanes: 1})
		f.fail(func(apply func() error) error {
			time.Sleep(time.Second)
			return apply()
		})
		put := func(name string) error { // each changes the job
			_, err := n.PutJob(context.Background(), carillon.Job{Name: name, Due: carillon.In(time.Hour),
				Target: carillon.WorkerQueue("q"), Data: carillon.JSON(time.Now())})
			return err
		}
		began, names := time.Now(), make([]string, 4) // by partition
		for i := 0; slices.Contains(names, ""); i++ {
			names[store.PartitionOf(carillon.Key{Namespace: "default", Name: fmt.Sprint(i)}, 4)] = fmt.Sprint(i)
		}
		var busy, others sync.WaitGroup
		for range 3 {
			busy.Go(func() {
				for time.Since(began) < time.Minute {
					if err := put(names[0]); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for _, name := range names[1:] {
			others.Go(func() {
				if err := put(name); err != nil || time.Since(began) > 2*time.Second {
					t.Errorf("a put into another partition took %v: %v", time.Since(began), err)
				}
			})
		}
		others.Wait()
		busy.Wait()
		n.stop()
	})
}

// TestAnAttemptThatNeverLeftIsNotWaitedFor: the answer to the write of a pending delivery is lost, so that
// the partition is claimed again. The node knows that no consumer has the attempt: the run does not wait for
// its lease.
func TestAnAttemptThatNeverLeftIsNotWaitedFor(t *testing.T) {
	for name, land := range map[string]bool{"written": true, "not written": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
				n := start(t, f)
				s, err := n.hub.Local().Connect(ctx, carillon.Hello{Namespace: "default", Queues: []string{"q"}})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Send(ctx, carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "q", N: 1}}}); err != nil {
					t.Fatal(err)
				}
				job := carillon.Job{Name: "a", Due: carillon.In(time.Minute), Lease: 30 * time.Second,
					Target: carillon.WorkerQueue("q")}
				if _, err := n.PutJob(ctx, job); err != nil {
					t.Fatal(err)
				}
				f.fail(func(apply func() error) error {
					f.fail(nil)
					if land {
						if err := apply(); err != nil {
							return err
						}
					}
					return fmt.Errorf("%w: lost", store.ErrUnknown)
				})
				due := time.Now().Add(time.Minute)
				msg, err := s.Receive(ctx)
				if late := time.Since(due); err != nil || len(msg.Runs) != 1 || msg.Runs[0].Attempt != 1 ||
					late < 0 || late > time.Second {
					t.Errorf("%+v %v, %v late", msg.Runs, err, late)
				}
				n.stop()
			})
		})
	}
}

// TestADeadRunIsLoggedOnceItIsDurable, in one line.
func TestADeadRunIsLoggedOnceItIsDurable(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text strings.Builder
				f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
				n := startWith(t, engine.Config{Store: way(f), Log: slog.New(slog.NewTextHandler(&text, nil))})
				gate := make(chan struct{})
				n.consume("q", 1, func(r carillon.Run) *carillon.Result {
					if r.Attempt == 4 { // the last one
						f.fail(func(apply func() error) error {
							<-gate
							return apply()
						})
					}
					return &carillon.Result{Outcome: carillon.OutcomeFailure, Message: "on purpose"}
				})
				if _, err := n.PutJob(t.Context(), carillon.Job{Name: "a", Target: carillon.WorkerQueue("q"),
					FailurePolicy: retries()}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				synctest.Wait()
				const line = `"a run is dead: `
				if strings.Contains(text.String(), line) {
					t.Errorf("before it is durable:\n%s", &text)
				}
				close(gate)
				n.stop()
				got := text.String()
				if strings.Count(got, line) != 1 || !strings.Contains(got, `attempts=4 error="on purpose"`) {
					t.Errorf("%s", got)
				}
			})
		})
	}
}

// TestStoreOutage: while the store takes nothing, nothing is acknowledged and the node is not ready; what is
// due runs once the store is back.
func TestStoreOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		c := n.consume("q", 10, success)
		for i := range 20 {
			if _, err := n.PutJob(ctx, carillon.Job{Name: fmt.Sprint(i), Due: carillon.In(time.Minute),
				Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := n.PutJob(ctx, carillon.Job{Name: "kept", Due: carillon.In(time.Hour),
			Target: carillon.WorkerQueue("nobody")})
		if err != nil {
			t.Fatal(err)
		}
		run, err := n.TriggerJob(ctx, kept.Job.Key())
		if err != nil {
			t.Fatal(err)
		}
		f.fail(func(func() error) error { return errors.New("disk gone") })
		time.Sleep(2 * time.Minute)
		synctest.Wait() // at this moment it may be trying once more
		if err := n.Ready(); err == nil {
			t.Error("it calls itself ready")
		}
		if got, err := n.GetJob(ctx, kept.Job.Key()); err != nil || got.Status.UID != kept.Job.Status.UID {
			t.Errorf("a job cannot be read: %+v %v", got, err)
		}
		if got, err := n.GetRun(ctx, run.Namespace, run.ID); err != nil || got.ID != run.ID || got.Job != run.Job {
			t.Errorf("a run cannot be read: %+v %v", got, err)
		}
		if _, err := n.GetJob(ctx, carillon.Key{Namespace: "default",
			Name: "never put"}); !errors.Is(err, carillon.NotFound) {
			t.Errorf("a job that is not there: %v", err)
		}
		if _, err := n.PutJob(ctx, carillon.Job{Name: "x",
			Target: carillon.WorkerQueue("q")}); !errors.Is(err, carillon.Unavailable) {
			t.Fatalf("got %v", err)
		}
		f.fail(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, err := n.DeleteJob(ctx, kept.Job.Key()); err != nil {
			t.Fatal(err)
		}
		page, err := n.ListJobs(ctx, carillon.JobQuery{})
		if err != nil || len(page.Jobs) != 0 {
			t.Fatalf("left: %+v %v", page, err)
		}
		ids := map[string]string{}
		for _, r := range c.got() {
			if other, ok := ids[r.Job]; ok && other != r.ID {
				t.Fatalf("%s ran under two ids", r.Job)
			}
			ids[r.Job] = r.ID
		}
		if len(ids) != 20 {
			t.Fatalf("%d of 20 ran", len(ids))
		}
		n.stop()
	})
}

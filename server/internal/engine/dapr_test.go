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
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// stream is a dispatcher with one consumer of all of Dapr's queues, with room for everything.
type stream struct {
	mu        sync.Mutex
	has       []delivery.Delivery
	cancelled int
}

func (s *stream) Offer(_ delivery.Owner, lineup []delivery.Waiting) {
	for i := range lineup {
		w := &lineup[i]
		w.Slots = delivery.Slots{N: w.Now, Served: w.Queue.Kind == "dapr"}
	}
}
func (s *stream) Forget(int) {}

func (s *stream) Awaited(int, []delivery.Awaited) {}

func (s *stream) SetPaused([]delivery.Queue) {}

func (s *stream) Deliver(_ int, ds []delivery.Delivery, _ []delivery.Rest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = append(s.has, ds...)
}

func (s *stream) Cancel(cs []delivery.Cancel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled += len(cs)
}

// take returns what has been delivered since the last call.
func (s *stream) take() []delivery.Delivery {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	ds := s.has
	s.has = nil
	return ds
}

func startStream(t *testing.T, s store.Store) (*engine.Engine, *stream) {
	t.Helper()
	e, c := engine.New(engine.Config{Store: s}), &stream{}
	if err := e.Start(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	return e, c
}

// verdicts counts the answers to reports.
type verdicts struct {
	mu              sync.Mutex
	accepted, stale int
}

func (v *verdicts) Accepted(string) { v.mu.Lock(); v.accepted++; v.mu.Unlock() }
func (v *verdicts) Stale(string)    { v.mu.Lock(); v.stale++; v.mu.Unlock() }

// succeed reports success for all deliveries and returns the answers.
func succeed(e *engine.Engine, ds []delivery.Delivery) *verdicts {
	v := &verdicts{}
	var rs []delivery.Report
	for _, d := range ds {
		rs = append(rs, delivery.Report{From: v,
			Result: carillon.Result{Token: d.Run.Token, RunID: d.Run.ID, Outcome: carillon.OutcomeSuccess}})
	}
	e.Reports(rs)
	time.Sleep(time.Second)
	synctest.Wait()
	return v
}

func daprJob(name string) carillon.Job {
	return carillon.Job{Name: "dapr/app/x/" + name, Due: carillon.In(time.Second),
		Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x"}}}
}

func putDapr(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	for i := 0; i < n; i += carillon.MaxBatch {
		var batch []carillon.Job
		for k := range min(carillon.MaxBatch, n-i) {
			batch = append(batch, daprJob(fmt.Sprint(i+k)))
		}
		if _, err := e.PutJobs(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
	}
}

func stop(t testing.TB, e *engine.Engine) {
	t.Helper()
	if err := e.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestAStreamThatEnds: its ten thousand runs are delivered again at once, as the same attempts.
func TestAStreamThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 10_000
		e, s := startStream(t, memory.New(memory.Options{Partitions: 4}))
		putDapr(t, e, jobs)
		for _, after := range []time.Duration{2 * time.Second, time.Hour} { // young attempts, and old ones
			time.Sleep(after)
			ds := s.take()
			if len(ds) != jobs {
				t.Fatalf("%d of %d are delivered", len(ds), jobs)
			}
			var tokens []string
			for _, d := range ds {
				tokens = append(tokens, d.Run.Token)
			}
			e.Undelivered(tokens)
		}
		ds := s.take() // no time has passed
		ids := map[string]bool{}
		for _, d := range ds {
			if ids[d.Run.ID] = true; d.Run.Attempt != 1 {
				t.Fatalf("attempt %d", d.Run.Attempt)
			}
		}
		if v := succeed(e, ds); len(ids) != jobs || v.accepted != jobs || v.stale != 0 {
			t.Fatalf("%d of %d are delivered again, %d accepted, %d stale", len(ids), jobs, v.accepted, v.stale)
		}
		if st := e.Stats(); st.Resident != 0 || st.InFlight != 0 || s.cancelled != 0 {
			t.Fatalf("left in memory: %+v, %d told to stop", st, s.cancelled)
		}
		stop(t, e)
	})
}

// TestTheNextNodeDeliversAtOnce: what streams of the previous node had, even for a day.
func TestTheNextNodeDeliversAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	synctest.Test(t, func(t *testing.T) {
		const jobs = 10_000 // more than memory takes
		st := memory.New(memory.Options{Partitions: 1})
		e, s := startStream(t, st)
		putDapr(t, e, jobs)
		time.Sleep(12 * time.Hour)
		old := s.take()
		stop(t, e)
		e, s = startStream(t, st)
		ds := s.take() // no time has passed
		if len(old) != jobs || len(ds) != jobs {
			t.Fatalf("%d and then %d of %d are delivered", len(old), len(ds), jobs)
		}
		for _, d := range ds {
			if d.Run.Attempt != 1 {
				t.Fatalf("attempt %d", d.Run.Attempt)
			}
		}
		if v := succeed(e, old); v.stale != jobs {
			t.Fatalf("%d of %d results of the old node are stale", v.stale, jobs)
		}
		if v := succeed(e, ds); v.accepted != jobs {
			t.Fatalf("%d of %d results are accepted", v.accepted, jobs)
		}
		stop(t, e)
	})
}

// TestWhatIsTakenBackIsCancelled: a term ends without order, and the next one of the same node takes back what
// streams have. What waits in one for a sidecar that does not read is not to be sent any more: its run goes on
// elsewhere, and may be over, or its job replaced, by the time at which the sidecar reads again.
func TestWhatIsTakenBackIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 10
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		e, s := startStream(t, f)
		putDapr(t, e, jobs)
		time.Sleep(5 * time.Second) // they are old enough to be durable
		old := s.take()
		f.fail(func(func() error) error { return fmt.Errorf("%w: lost", store.ErrUnknown) })
		if _, err := e.PutJob(context.Background(), daprJob("another")); err == nil {
			t.Fatal("the store did not fail")
		}
		f.fail(nil)
		time.Sleep(2 * time.Second)
		if again := s.take(); len(old) != jobs || len(again) < jobs || s.cancelled != jobs {
			t.Errorf("%d runs are delivered, then %d, and %d cancelled", len(old), len(again), s.cancelled)
		}
		stop(t, e)
	})
}

// batches records a store's writes.
type batches struct {
	store.Store
	mu  sync.Mutex
	all []*store.Batch
}

type batchesShard struct {
	store.Shard
	b *batches
}

func (b *batches) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := b.Store.Shard(p, term)
	return batchesShard{s, b}, err
}

func (s batchesShard) Apply(ctx context.Context, b *store.Batch) error {
	s.b.mu.Lock()
	s.b.all = append(s.b.all, b)
	s.b.mu.Unlock()
	return s.Shard.Apply(ctx, b)
}

// TestAPutAnewIsOneStep: whatever becomes of its write, either the job is there with all of its runs, or the
// new one with none; and a write that arrives has everything.
func TestAPutAnewIsOneStep(t *testing.T) {
	disk := errors.New("no space left on device")
	for name, c := range map[string]struct {
		fault    func(apply func() error) error
		replaced bool
	}{
		"arrives":               {nil, true},
		"certainly not applied": {func(func() error) error { return disk }, false},
		"unknown and not applied": {func(func() error) error { return fmt.Errorf("%w: lost", store.ErrUnknown) },
			false},
		"unknown and applied": {func(apply func() error) error {
			return errors.Join(apply(), fmt.Errorf("%w: lost", store.ErrUnknown))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				log := &batches{Store: memory.New(memory.Options{Partitions: 1})}
				f := &faulty{Store: log}
				n := start(t, f)
				job := carillon.Job{Name: "a", Schedule: "@every 10s", Target: carillon.WorkerQueue("q")}
				old, err := n.PutJob(ctx, job)
				if err != nil {
					t.Fatal(err)
				}
				key := old.Job.Key()
				for range 3 {
					if _, err := n.TriggerJob(ctx, key); err != nil {
						t.Fatal(err)
					}
				}
				c1 := n.consume("q", 2, func(carillon.Run) *carillon.Result { return nil })
				time.Sleep(15 * time.Second) // two attempts are in force, two runs wait in the store
				log.mu.Lock()
				before := len(log.all)
				log.mu.Unlock()
				f.fail(c.fault)
				put, err := n.PutJob(ctx, job, carillon.Replace())
				if (err == nil) != (c.fault == nil) {
					t.Fatalf("%+v %v", put, err)
				}
				f.fail(nil)
				log.mu.Lock()
				wrote := slices.Clone(log.all[before:])
				log.mu.Unlock()
				wantOneStep(t, wrote, key, c.replaced)
				time.Sleep(2 * time.Second)
				now, err := n.GetJob(ctx, key)
				if replaced := err == nil && now.Status.UID != old.Job.Status.UID; err != nil || replaced != c.replaced {
					t.Fatalf("%+v %v", now.Status, err)
				}
				page, err := n.ListRuns(ctx, carillon.RunQuery{Job: "a"})
				ended := slices.DeleteFunc(page.Runs, func(r carillon.Run) bool { return !r.Status.Finished() })
				if want := map[bool]int{true: 4, false: 0}[c.replaced]; err != nil || len(ended) != want {
					t.Fatalf("%d runs have ended, want %d: %v", len(ended), want, err)
				}
				if c.fault == nil && len(c1.got()) != 2 {
					t.Fatalf("it was delivered %d runs", len(c1.got()))
				}
				n.stop()
			})
		})
	}
}

// wantOneStep checks that the batch that has the new job also ends the old job's runs.
func wantOneStep(t *testing.T, wrote []*store.Batch, key carillon.Key, replaced bool) {
	t.Helper()
	if !replaced {
		return
	}
	steps := 0
	for _, b := range wrote {
		if slices.Contains(b.Deletes, store.Ref{Key: key}) {
			t.Fatal("the job is deleted")
		}
		for i := range b.Puts {
			if r := &b.Puts[i]; r.Ref == (store.Ref{Key: key}) && r.Spec != nil {
				if steps++; len(b.Deletes) != 3 || len(b.Runs) != 4 {
					t.Fatalf("beside the new job %d records go and %d runs end", len(b.Deletes), len(b.Runs))
				}
			}
		}
	}
	if steps != 1 {
		t.Fatalf("%d steps", steps)
	}
}

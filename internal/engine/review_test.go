package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/memory"
)

// silent takes runs and reports nothing.
func silent(carillon.Run) *carillon.Result { return nil }

// begun puts a one-shot and waits until its attempt is in force and durable.
func (n *node) begun(c *consumer, name string) carillon.Run {
	n.t.Helper()
	j := carillon.Job{Name: name, Target: carillon.WorkerQueue("q"), Lease: 10 * time.Minute}
	if _, err := n.PutJob(context.Background(), j); err != nil {
		n.t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	synctest.Wait()
	runs := c.got()
	if len(runs) == 0 {
		n.t.Fatal("not delivered")
	}
	return runs[len(runs)-1]
}

func done(r carillon.Run) carillon.Result {
	return carillon.Result{Token: r.Token, RunID: r.ID, Outcome: carillon.OutcomeSuccess}
}

func TestAFailedStartLeavesNothingClaimedAndCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := memory.New(memory.Options{Partitions: 2})
		if _, err := s.Leaser().Claim(ctx, "other", []int{1}, time.Hour); err != nil {
			t.Fatal(err)
		}
		e := engine.New(engine.Config{Store: s})
		if err := e.Start(ctx, dispatch.New(e, dispatch.Options{})); err == nil {
			t.Fatal("started without partition 1")
		}
		if err := e.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if terms, err := s.Leaser().Claim(ctx, "third", []int{0}, time.Hour); err != nil || terms[0].IsZero() {
			t.Fatalf("partition 0 is still claimed: %v %v", terms, err)
		}
	})
}

func TestCompleteRunSaysThatTheTokenIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		res := done(n.begun(n.consume("q", 1, silent), "a"))
		res.Token = ""
		err := n.CompleteRun(context.Background(), "default", res)
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument || e.Field != "token" ||
			!strings.Contains(e.Message, "it is missing") {
			t.Errorf("got %v", err)
		}
		n.stop()
	})
}

func TestCompleteRunIsAnsweredWhenTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		r := n.begun(n.consume("q", 1, silent), "a")
		f.fail(func(func() error) error { return errors.New("disk gone") })
		if err := n.CompleteRun(context.Background(), "default", done(r)); !errors.Is(err, carillon.Unavailable) {
			t.Fatalf("got %v", err)
		}
		f.fail(nil)
		time.Sleep(time.Second)
		if err := n.CompleteRun(context.Background(), "default", done(r)); err != nil {
			t.Fatal(err)
		}
		n.stop()
		if err := n.CompleteRun(context.Background(), "default", done(r)); !errors.Is(err, carillon.Unavailable) {
			t.Fatalf("after the end: %v", err)
		}
	})
}

func TestARunIsFoundWhileItsEndIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		r := n.begun(n.consume("q", 1, silent), "a")
		f.fail(func(apply func() error) error { time.Sleep(time.Second); return apply() })
		first := make(chan error, 1)
		go func() { first <- n.CompleteRun(ctx, "default", done(r)) }()
		synctest.Wait()
		began := time.Now()
		run, err := n.GetRun(ctx, "default", r.ID)
		if err != nil || run.Status != carillon.RunSucceeded {
			t.Fatalf("run %+v %v", run, err)
		}
		if time.Since(began) == 0 {
			t.Fatal("told before it was durable")
		}
		if _, err := n.CancelRun(ctx, "default", r.ID); !errors.Is(err, carillon.FailedPrecondition) {
			t.Fatalf("cancel: %v", err)
		}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		n.stop()
	})
}

// blind is a store whose reads fail while the test says so.
type blind struct {
	store.Store
	fails atomic.Bool
}

type blindShard struct {
	store.Shard
	b *blind
}

func (b *blind) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := b.Store.Shard(p, term)
	return blindShard{s, b}, err
}

var errBlind = errors.New("cannot read")

func (s blindShard) Live(ctx context.Context, id identity.Run) (store.Ref, bool, error) {
	if s.b.fails.Load() {
		return store.Ref{}, false, errBlind
	}
	return s.Shard.Live(ctx, id)
}

func (s blindShard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if s.b.fails.Load() {
		return nil, errBlind
	}
	return s.Shard.Runs(ctx, q)
}

func (s blindShard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	if s.b.fails.Load() {
		return nil, errBlind
	}
	return s.Shard.Due(ctx, q)
}

// TestAResultSurvivesAReadError: the result of an attempt of an earlier term comes while the store cannot be
// read. It must neither be called stale nor be lost.
func TestAResultSurvivesAReadError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blind{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, b)
		r := n.begun(n.consume("q", 1, silent), "a")
		n.stop()
		b.fails.Store(true)
		n = start(t, b)
		c := n.consume("q", 1, silent)
		if err := c.Send(context.Background(), carillon.WorkRequest{Results: []carillon.Result{done(r)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		b.fails.Store(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		run, err := n.GetRun(context.Background(), "default", r.ID)
		if err != nil || run.Status != carillon.RunSucceeded || len(c.got()) != 0 {
			t.Fatalf("run %+v %v, delivered again %d times", run, err, len(c.got()))
		}
		n.stop()
		if <-c.done; c.heard().acks != 1 {
			t.Fatalf("%d acknowledgements", c.heard().acks)
		}
	})
}

// TestAResultSurvivesALostTerm: the batch that holds a result fails. The sender, which gets no answer, need
// not send it again.
func TestAResultSurvivesALostTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		c := n.consume("q", 5, silent)
		r := n.begun(c, "a")
		f.fail(func(func() error) error { return errors.New("disk gone") })
		if err := c.Send(context.Background(), carillon.WorkRequest{Results: []carillon.Result{done(r)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		f.fail(nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		run, err := n.GetRun(context.Background(), "default", r.ID)
		if err != nil || run.Status != carillon.RunSucceeded || len(c.got()) != 1 {
			t.Fatalf("run %+v %v, %d attempts", run, err, len(c.got()))
		}
		n.stop()
	})
}

// TestDeletesAreDurableBeforeTheyAreAcknowledged: some of the deleted jobs end meanwhile.
func TestDeletesAreDurableBeforeTheyAreAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		for _, name := range []string{"p/a", "p/b"} {
			if _, err := n.PutJob(ctx, carillon.Job{Name: name, Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}); err != nil {
				t.Fatal(err)
			}
		}
		f.fail(func(apply func() error) error { time.Sleep(time.Second); return apply() })
		go func() { _, _ = n.DeleteJob(ctx, carillon.Key{Namespace: "default", Name: "p/b"}) }()
		synctest.Wait()
		began := time.Now()
		if _, err := n.DeleteJobs(ctx, "default", "p/"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Fatalf("acknowledged after %v, its batch takes until 2 s", took)
		}
		n.stop()
	})
}

// TestLargePayloadsAreNotLate: more of them are due at once than one round reads, and nothing else happens.
func TestLargePayloadsAreNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 300
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		c := n.consume("q", jobs, silent)
		due := carillon.In(time.Minute)
		for i := range jobs {
			j := carillon.Job{Name: fmt.Sprint(i), Due: due, Target: carillon.WorkerQueue("q"), Data: carillon.Bytes(make([]byte, 2<<10), "")}
			if _, err := n.PutJob(context.Background(), j); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute + 10*time.Millisecond)
		synctest.Wait()
		if got := len(c.got()); got != jobs {
			t.Fatalf("%d of %d delivered when they were due", got, jobs)
		}
		n.stop()
	})
}

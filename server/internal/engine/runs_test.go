package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store/memory"
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

func TestCompleteRunSaysThatTheTokenIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		res := done(n.begun(n.consume("q", 1, silent), "a"))
		res.Token = ""
		err := n.CompleteRun(context.Background(), "default", res)
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.InvalidArgument ||
			e.Field != "token" ||
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

var errBlind = errors.New("cannot read")

// TestLargePayloadsAreNotLate: more of them are due at once than one round reads, and nothing else happens.
func TestLargePayloadsAreNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 300
		n := start(t, memory.New(memory.Options{Partitions: 1}))
		c := n.consume("q", jobs, silent)
		due := carillon.In(time.Minute)
		for i := range jobs {
			j := carillon.Job{Name: fmt.Sprint(i), Due: due, Target: carillon.WorkerQueue("q"),
				Data: carillon.Bytes(make([]byte, 2<<10), "")}
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

// TestARunThatEndsOnItsWayCannotBeRedrivenTwice: redrives and cancels a dead run while the store still has it
// as dead.
func TestARunThatEndsOnItsWayCannotBeRedrivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faulty{Store: memory.New(memory.Options{Partitions: 1})}
		n := start(t, f)
		c := n.consume("q", 10, func(carillon.Run) *carillon.Result {
			return &carillon.Result{Outcome: carillon.OutcomeFailure, Permanent: true}
		})
		if _, err := n.PutJob(context.Background(),
			carillon.Job{Name: "a", Schedule: "@yearly", Target: carillon.WorkerQueue("q"),
				FailurePolicy: carillon.FailurePolicy{OnExhausted: carillon.ExhaustedDead}}); err != nil {
			t.Fatal(err)
		}
		run, err := n.TriggerJob(context.Background(), carillon.Key{Namespace: "default", Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.fail(func(apply func() error) error {
			time.Sleep(time.Second)
			return apply()
		})
		done := make(chan error, 2)
		go func() {
			_, err := n.RedriveRun(context.Background(), "default", run.ID)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		go func() {
			_, err := n.CancelRun(context.Background(), "default", run.ID)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		if _, err := n.RedriveRun(context.Background(), "default",
			run.ID); carillon.KindOf(err) != carillon.FailedPrecondition {
			t.Errorf("a cancelled run is redriven: %v", err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		f.fail(nil)
		if r, err := n.GetRun(context.Background(), "default", run.ID); err != nil ||
			r.Status != carillon.RunCancelled {
			t.Errorf("%+v %v", r, err)
		}
		n.stop()
		<-c.done
	})
}

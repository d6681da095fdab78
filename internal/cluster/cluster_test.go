package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far returns a job that is due much later.
func far(name string) carillon.Job {
	return carillon.Job{Name: name, Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
}

// calling puts jobs through a node until it is told to end. Each put must succeed within the time, except for
// as many as a node that breaks down may have under way.
func calling(t *testing.T, n *node, within time.Duration, fail int) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			if _, err := n.Router().PutJob(context.Background(), far(fmt.Sprint("job/", n.id, i))); err != nil {
				if fail--; fail < 0 {
					t.Errorf("put %d: %v", i, err)
					return
				}
			}
			if took := time.Since(began); took > within {
				t.Errorf("put %d took %v", i, took)
			}
			pass(time.Millisecond)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// TestNodesComeAndGo: every partition has one owner soon after each change, never two, and calls go on.
func TestNodesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := single(t)
		b, c := f.start("b"), f.start("c")
		f.settle(2*time.Second, a, b, c)
		end := calling(t, a, time.Second, 0)
		d := f.start("d")
		f.settle(2*time.Second, a, b, c, d)
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.settle(time.Second, a, b, d)
		end()
		if _, err := c.Router().GetJob(t.Context(), carillon.Key{Namespace: carillon.DefaultNamespace, Name: "job/a0"}); err != nil {
			t.Errorf("a node that leaves still answers: %v", err)
		}
		end = calling(t, a, 6*time.Second, 1)
		b.kill()
		f.settle(5*time.Second, a, d)
		end()
	})
}

// TestTheLastNodeLeaves: calls to it fail at once when its engine has stopped, as no other node could serve
// them.
func TestTheLastNodeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := single(t)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.end()
		began := time.Now()
		_, err := a.Router().PutJob(t.Context(), far("late"))
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || e.Unknown {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

// TestWhoCameToTheLastNodeIsKilled: the leaving node has no other node left, and takes back what it had
// handed over.
func TestWhoCameToTheLastNodeIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.start("a")
		f.settle(time.Second, a)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := f.start("b")
		f.settle(2*time.Second, b)
		b.kill()
		pass(10 * time.Second)
		if _, err := a.Router().PutJob(t.Context(), far("late")); err != nil {
			t.Errorf("got %v", err)
		}
		f.settle(0, a)
	})
}

// TestSomebodyComesWhileTheLastNodeDrains: a joining node gets the partitions of a node that had nobody to
// leave them to and that hands out nothing while it waits for attempts in force. The drain ends.
func TestSomebodyComesWhileTheLastNodeDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := single(t)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		if n := len(a.engine.Holdings()); n != parts {
			t.Fatalf("with nobody there it holds %d partitions", n)
		}
		b := f.start("b")
		f.settle(2*time.Second, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.engine.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
	})
}

// TestReadsGoOn: jobs of a dead node are read from the store before its partitions have a new owner.
func TestReadsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		for i := range 30 {
			if _, err := a.Router().PutJob(t.Context(), far(fmt.Sprint("job/", i))); err != nil {
				t.Fatal(err)
			}
		}
		b.kill()
		began := time.Now()
		for i := range 30 {
			go func() {
				k := carillon.Key{Namespace: carillon.DefaultNamespace, Name: fmt.Sprint("job/", i)}
				if _, err := a.Router().GetJob(t.Context(), k); err != nil {
					t.Errorf("get: %v", err)
				}
			}()
		}
		pass(2 * time.Second)
		synctest.Wait()
		if time.Since(began) > 3*time.Second {
			t.Error("it took too long")
		}
	})
}

// TestANameHasOneProcess: a second process is refused while the first answers, and takes its place if it does
// not. The first ends when it finds out.
func TestANameHasOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		if _, err := f.try("a"); err == nil || !strings.Contains(err.Error(), "--node-name") {
			t.Fatalf("a second a: %v", err)
		}
		a.kill()
		again := f.start("a")
		f.settle(2*time.Second+cluster.DefaultTTL, again, b)
		before := again.engine.Holdings()
		a.cut.Store(false)
		select {
		case <-a.Replaced():
		case <-time.After(5 * time.Second):
			t.Fatal("the first has not found out")
		}
		pass(time.Second) // it hands over what it believed to own
		if a.Ready() == nil || len(a.engine.Holdings()) > 0 {
			t.Errorf("the first is ready: %v", a.Ready())
		}
		f.settle(time.Second, again, b)
		if now := again.engine.Holdings(); !slices.Equal(now, before) {
			t.Errorf("the second owned %v, and owns %v since the first has come back", before, now)
		}
	})
}

// TestReadyMeansOwning: a node that loses its terms while it is cut off from the store is ready again once it
// has new ones.
func TestReadyMeansOwning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := single(t)
		lost := false
		for step := range 600 {
			a.cut.Store(step >= 100 && step < 480) // less than a lease: others would not have it
			pass(10 * time.Millisecond)
			synctest.Wait()
			owns := a.engine.Ready() == nil
			if lost = lost || !owns; !owns && a.Ready() == nil {
				t.Fatalf("after %d ms it is ready, and %v", 10*step, a.engine.Ready())
			}
		}
		if !lost || a.Ready() != nil {
			t.Errorf("it has lost what it owned: %v; in the end: %v", lost, a.Ready())
		}
	})
}

// TestAClockThatIsOff: the node owns nothing until its clock is right again.
func TestAClockThatIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		b.ahead.Store(int64(-2 * time.Second))
		pass(2500 * time.Millisecond)
		f.settle(time.Second, a)
		if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("b is ready: %v", err)
		}
		s, err := a.ClusterStatus(t.Context())
		if err != nil || s.Nodes[1].Skew != -2*time.Second || !s.Nodes[1].SkewKnown || !s.Nodes[1].Draining {
			t.Errorf("status %+v, %v", s.Nodes, err)
		}
		b.ahead.Store(0)
		pass(2500 * time.Millisecond)
		f.settle(2*time.Second, a, b)
		if len(b.engine.Holdings()) == 0 {
			t.Error("b owns nothing")
		}
	})
}

// TestDrains: a drained node owns nothing until a rebalance, and the last one cannot be drained.
func TestDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		if err := a.DrainNode(t.Context(), "nobody"); !errors.Is(err, carillon.NotFound) {
			t.Errorf("drain nobody: %v", err)
		}
		if err := a.DrainNode(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		f.settle(time.Second, a)
		if err := b.DrainNode(t.Context(), "a"); !errors.Is(err, carillon.FailedPrecondition) || !strings.Contains(err.Error(), "no other node") {
			t.Errorf("drain the last: %v", err)
		}
		if err := b.DrainNode(t.Context(), "b"); err != nil {
			t.Errorf("drain once more: %v", err)
		}
		if err := a.Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.settle(time.Second, a, b)
		if len(b.engine.Holdings()) == 0 {
			t.Error("b owns nothing")
		}
	})
}

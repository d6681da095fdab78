package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/carillonhq/carillon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNodesJoinLeaveAndDie: every partition has one owner soon after each change, never two, and calls go on.
func TestNodesJoinLeaveAndDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := oneNode(t)
		b, c := f.start("b"), f.start("c")
		f.settle(2*time.Second, a, b, c)
		end := keepPutting(t, a, time.Second, 0)
		d := f.start("d")
		f.settle(2*time.Second, a, b, c, d)
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.settle(time.Second, a, b, d)
		end()
		if _, err := c.Router().GetJob(t.Context(),
			carillon.Key{Namespace: carillon.DefaultNamespace, Name: "job/a0"}); err != nil {
			t.Errorf("a node that leaves still answers: %v", err)
		}
		end = keepPutting(t, a, 6*time.Second, 1)
		b.kill()
		f.settle(5*time.Second, a, d)
		end()
	})
}

// TestReadyOnceTermsAreNew: a node that loses its terms while it is cut off from the store is ready again
// once it has new ones.
func TestReadyOnceTermsAreNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		lost := false
		for step := range 600 {
			a.isolated.Store(step >= 100 && step < 480) // less than a lease: others would not have it
			sleep(10 * time.Millisecond)
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

// TestConcurrentLooksShareOneRead: however many callers request the cluster's state at once, the store is
// asked a few times, and the node's own heartbeats are not delayed.
func TestConcurrentLooksShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		sleep(time.Millisecond) // nobody looks
		before := a.looks.Load()
		a.membersDelay.Store(int64(10 * time.Millisecond))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				sleep(time.Duration(i) * 10 * time.Microsecond)
				if _, err := a.ClusterStatus(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if looks := a.looks.Load() - before; looks > 3 {
			t.Errorf("the store was asked %d times who lives", looks)
		}
	})
}

// TestSidecarsAreToldAtOnce: of a node that can be reached, and of one that takes none any more.
func TestSidecarsAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := oneNode(t)
		var told atomic.Value
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- a.WatchNodes(ctx, func(nodes []carillon.Node) error {
				var all []string
				for _, n := range nodes {
					all = append(all, n.Sidecars)
				}
				told.Store(strings.Join(all, " "))
				return nil
			})
		}()
		expect := func(want string) {
			t.Helper()
			if synctest.Wait(); told.Load() != want {
				t.Errorf("told %q, want %q", told.Load(), want)
			}
		}
		expect("a:1")
		b := f.start("b")
		before := time.Now()
		b.Greet(t.Context())
		expect("a:1 b:1")
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect("a:1 b:1") // what its sidecars have in hand goes on
		if err := b.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect("a:1 ")
		if took := time.Since(before); took > time.Second {
			t.Errorf("it took %v", took)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

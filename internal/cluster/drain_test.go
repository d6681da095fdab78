package cluster_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestDrainsAtOneTime: of nodes that are drained at the same time, by different nodes, one stays and owns
// everything.
func TestDrainsAtOneTime(t *testing.T) {
	for _, lag := range []time.Duration{0, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			nodes := []*node{f.start("a"), f.start("b"), f.start("c")}
			f.settle(2*time.Second, nodes...)
			errs := make([]error, len(nodes))
			var all sync.WaitGroup
			for i, n := range nodes {
				n.lag.Store(int64(lag)) // all see that the others are there
				all.Go(func() { errs[i] = n.DrainNode(t.Context(), nodes[(i+1)%len(nodes)].id) })
			}
			all.Wait()
			refused := -1
			for i, err := range errs {
				switch {
				case errors.Is(err, carillon.FailedPrecondition) && refused < 0:
					refused = i
				case err != nil:
					t.Errorf("drain %d: %v", i, err)
				}
			}
			if refused < 0 {
				t.Fatal("all were drained")
			}
			f.settle(2*time.Second, nodes[(refused+1)%len(nodes)])
		})
	}
}

// TestADrainIsOfAProcess: a drain ends with the process, and a drain of one process does not affect another
// of the same name.
func TestADrainIsOfAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		if err := a.DrainNode(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		f.settle(2*time.Second, a)
		b.end()
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := f.start("b")
		f.settle(2*time.Second, a, again)
		if len(again.engine.Holdings()) == 0 {
			t.Error("the new process owns nothing")
		}
		if err := again.SetDraining(t.Context(), b.nonce, true); !errors.Is(err, carillon.FailedPrecondition) {
			t.Errorf("a late drain of the old process: %v", err)
		}
		pass(3 * time.Second)
		f.settle(0, a, again)
		if len(again.engine.Holdings()) == 0 {
			t.Error("it hit the new one")
		}
	})
}

// TestADrainThatTheStoreDidNotTake is not done.
func TestADrainThatTheStoreDidNotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		b.cut.Store(true)
		if err := a.DrainNode(t.Context(), "b"); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("drain: %v", err)
		}
		b.cut.Store(false)
		pass(2 * time.Second)
		f.settle(2*time.Second, a, b)
	})
}

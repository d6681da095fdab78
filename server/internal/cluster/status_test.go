package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
)

// TestDrainAndRebalance: a drained node owns nothing until a rebalance, and the last one cannot be drained.
func TestDrainAndRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		if err := a.DrainNode(t.Context(), "nobody"); !errors.Is(err, carillon.NotFound) {
			t.Errorf("drain nobody: %v", err)
		}
		if err := a.DrainNode(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		f.settle(time.Second, a)
		if err := b.DrainNode(t.Context(), "a"); !errors.Is(err, carillon.FailedPrecondition) ||
			!strings.Contains(err.Error(), "no other node") {
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

// TestConcurrentDrainsLeaveOneNode: of nodes that are drained at the same time, by different nodes, one stays
// and owns everything.
func TestConcurrentDrainsLeaveOneNode(t *testing.T) {
	for _, lag := range []time.Duration{0, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := newRig(t)
			nodes := []*node{f.start("a"), f.start("b"), f.start("c")}
			f.settle(2*time.Second, nodes...)
			errs := make([]error, len(nodes))
			var all sync.WaitGroup
			for i, n := range nodes {
				n.membersDelay.Store(int64(lag)) // all see that the others are there
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

// TestDrainEndsWithTheProcess: a drain ends with the process, and a drain of one process does not affect
// another of the same name.
func TestDrainEndsWithTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
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
		sleep(3 * time.Second)
		f.settle(0, a, again)
		if len(again.engine.Holdings()) == 0 {
			t.Error("it hit the new one")
		}
	})
}

// TestDrainRefusedByTheStore is not done.
func TestDrainRefusedByTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		b.isolated.Store(true)
		if err := a.DrainNode(t.Context(), "b"); !errors.Is(err, carillon.Unavailable) {
			t.Errorf("drain: %v", err)
		}
		b.isolated.Store(false)
		sleep(2 * time.Second)
		f.settle(2*time.Second, a, b)
	})
}

// lostControl is a node that carries out a request and does not answer.
type lostControl struct{ cluster.Control }

func (lostControl) SetDraining(context.Context, uint64, bool) error {
	return &carillon.Error{Kind: carillon.Unavailable, Message: "gone", Unknown: true, Err: cluster.ErrLost}
}

// TestDrainWithUnknownOutcome: the error says that the outcome is unknown.
func TestDrainWithUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		f.control = func(c cluster.Control) cluster.Control { return lostControl{c} }
		a, b := f.start("a"), f.start("b")
		f.settle(2*time.Second, a, b)
		e, ok := errors.AsType[*carillon.Error](a.DrainNode(t.Context(), "b"))
		if !ok || e.Kind != carillon.Unavailable || !e.Unknown {
			t.Errorf("drain: %#v", e)
		}
	})
}

// TestTheStatusWhileTheStoreIsAway is what was read last, and says so, and which nodes are without the store.
func TestTheStatusWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := twoNodes(t)
		read := time.Now()
		for _, n := range []*node{a, b} {
			n.noStore.Store(true)
		}
		sleep(20 * time.Second)
		s, err := a.ClusterStatus(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Nodes) != 2 || len(s.Partitions) != parts || len(s.Warnings) != 1 ||
			!strings.Contains(s.Warnings[0], `this is as node "a" read it at `+read.UTC().Format("2006-01-02T15:04")) ||
			!strings.Contains(s.Warnings[0], "the store could not be read: ") {
			t.Errorf("status: %+v", s)
		}
		for _, n := range s.Nodes {
			if !strings.HasPrefix(n.Reason, "the store has not answered: ") {
				t.Errorf("%s: %q", n.ID, n.Reason)
			}
		}
		b.noStore.Store(false)
		sleep(2 * time.Second)
		if s, err = b.ClusterStatus(t.Context()); err != nil || len(s.Warnings) > 0 {
			t.Errorf("where the store is back: %+v %v", s, err)
		}
		a.noStore.Store(false)
	})
}

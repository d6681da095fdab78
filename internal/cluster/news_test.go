package cluster_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/store"
)

// TestSettingsAreAnnounced: to every other node, even while one of them cannot be reached.
func TestSettingsAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c, d := f.start("a"), f.start("b"), f.start("c"), f.start("d")
		f.settle(3*time.Second, a, b, c, d)
		strict := false
		put := func() {
			t.Helper()
			strict = !strict
			if _, err := a.Router().PutNamespace(t.Context(), carillon.Namespace{Name: "ns", Strict: strict}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		told := func() (sum int64) {
			for _, n := range f.all() {
				sum += n.told.Load()
			}
			return sum
		}
		if put(); told() != 3 {
			t.Errorf("%d of 3 nodes were told", told())
		}
		d.kill()
		if put(); told() < 5 {
			t.Errorf("%d nodes were told, with one that is dead", told()-3)
		}
	})
}

// TestANodeThatComesHearsOfSettings: of settings that changed after it had read them, and before the others
// knew of it.
func TestANodeThatComesHearsOfSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := single(t)
		for looks := a.looks.Load(); a.looks.Load() == looks; {
			pass(time.Millisecond)
		}
		synctest.Wait() // until the look has ended
		b := f.start("b")
		if _, err := a.Router().PutNamespace(t.Context(), carillon.Namespace{Name: "ns", Strict: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if told := b.told.Load(); told != 0 {
			t.Fatalf("told %d times by a node that does not know of it", told)
		}
		pass(1500 * time.Millisecond)
		if told := b.told.Load(); told == 0 {
			t.Error("it goes by settings that have changed")
		}
		c := f.start("c")
		pass(10 * time.Second)
		d := f.start("d")
		pass(2 * time.Second)
		if c.told.Load() == 0 || d.told.Load() != 0 {
			t.Errorf("told %d times soon after, and %d times much later", c.told.Load(), d.told.Load())
		}
	})
}

// TestManyLooksAreFew: however many callers request the cluster's state at once, the store is asked a few
// times, and the node's own heartbeats are not delayed.
func TestManyLooksAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := single(t)
		pass(time.Millisecond) // nobody looks
		before := a.looks.Load()
		a.lag.Store(int64(10 * time.Millisecond))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				pass(time.Duration(i) * 10 * time.Microsecond)
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

// TestASlowStoreTellsTheTimeToo: a slow reading of the store's clock loses nothing that is known, and a clock
// that is set is noticed.
func TestASlowStoreTellsTheTimeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := single(t)
		a.slow.Store(int64(900 * time.Millisecond))
		pass(5 * time.Second)
		if off := time.Until(a.StoreNow()).Abs(); off > 10*time.Millisecond {
			t.Errorf("the store's clock is taken to be %v off", off)
		}
		a.slow.Store(0)
		a.ahead.Store(int64(700 * time.Millisecond))
		pass(3 * time.Second)
		if off := time.Until(a.StoreNow()).Abs(); off > 10*time.Millisecond {
			t.Errorf("after the clock was set, the store's is taken to be %v off", off)
		}
	})
}

// TestReplacedBeforeItOwned: a node whose name is taken before it was given a share ends as well.
func TestReplacedBeforeItOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		calls := 0
		f.meanwhile = func() {
			if calls++; calls < 3 {
				return // the read that checks its settings, before and after it joins
			}
			f.meanwhile = nil
			l := f.store.Leaser()
			if err := errors.Join(l.Leave(t.Context(), "a", 1), l.Join(t.Context(), store.Member{ID: "a", Nonce: 77}, time.Hour)); err != nil {
				t.Error(err)
			}
		}
		a := f.start("a")
		select {
		case <-a.Replaced():
		case <-time.After(5 * time.Second):
			t.Error("it goes on")
		}
	})
}

// lostControl is a node that carries out a request and does not answer.
type lostControl struct{ cluster.Control }

func (lostControl) SetDraining(context.Context, uint64, bool) error {
	return &carillon.Error{Kind: carillon.Unavailable, Message: "gone", Unknown: true, Err: cluster.ErrLost}
}

// TestADrainThatMayBeDone: the error says that the outcome is unknown.
func TestADrainThatMayBeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.control = func(c cluster.Control) cluster.Control { return lostControl{c} }
		a, b := f.start("a"), f.start("b")
		f.settle(2*time.Second, a, b)
		e, ok := errors.AsType[*carillon.Error](a.DrainNode(t.Context(), "b"))
		if !ok || e.Kind != carillon.Unavailable || !e.Unknown {
			t.Errorf("drain: %#v", e)
		}
	})
}

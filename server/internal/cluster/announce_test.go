package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestNamespaceIsAnnouncedToAllNodes: to every other node, even while one of them cannot be reached.
func TestNamespaceIsAnnouncedToAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		a, b, c, d := f.start("a"), f.start("b"), f.start("c"), f.start("d")
		f.settle(3*time.Second, a, b, c, d)
		strict := false
		put := func() {
			t.Helper()
			strict = !strict
			if _, err := a.Router().PutNamespace(t.Context(),
				carillon.Namespace{Name: "ns", Strict: strict}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		told := func() (sum int64) {
			for _, n := range f.all() {
				sum += n.reloads.Load()
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

// TestJoiningNodeLearnsOfRecentChanges: of settings that changed after it had read them, and before the
// others knew of it.
func TestJoiningNodeLearnsOfRecentChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := oneNode(t)
		for looks := a.looks.Load(); a.looks.Load() == looks; {
			sleep(time.Millisecond)
		}
		synctest.Wait() // until the look has ended
		b := f.start("b")
		if _, err := a.Router().PutNamespace(t.Context(),
			carillon.Namespace{Name: "ns", Strict: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if told := b.reloads.Load(); told != 0 {
			t.Fatalf("told %d times by a node that does not know of it", told)
		}
		sleep(1500 * time.Millisecond)
		if told := b.reloads.Load(); told == 0 {
			t.Error("it goes by settings that have changed")
		}
		c := f.start("c")
		sleep(10 * time.Second)
		d := f.start("d")
		sleep(2 * time.Second)
		if c.reloads.Load() == 0 || d.reloads.Load() != 0 {
			t.Errorf("told %d times soon after, and %d times much later", c.reloads.Load(), d.reloads.Load())
		}
	})
}

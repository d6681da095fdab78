package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/store"
)

// exclusive is the name of the rig's exclusive nodes.
const exclusive = "embedded"

// refused checks that a node is not admitted.
func (f *rig) refused(id, want string) {
	f.t.Helper()
	if _, err := f.try(id); err == nil || !strings.Contains(err.Error(), want) {
		f.t.Errorf("%s: %v, want %q", id, err, want)
	}
}

func TestAnExclusiveNodeIsTheOnlyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		first := f.start(exclusive)
		f.settle(2*time.Second, first)
		began := time.Now()
		f.refused(exclusive, "another process with an embedded scheduler")
		if d := time.Since(began); d > cluster.DefaultTTL {
			t.Errorf("it was refused after %v", d)
		}
		f.refused("a", "a program with an embedded scheduler")
		sleep(10 * time.Second)
		f.settle(0, first)
		first.end()
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		a := f.start("a")
		f.refused(exclusive, `node "a" at a uses it`)
		sleep(10 * time.Second)
		if n := len(a.engine.Holdings()); n != parts {
			t.Errorf("a owns %d partitions", n)
		}
	})
}

// TestAnExclusiveNodeOutlivesADeadOne: nobody can ask whether a process is dead, so it waits for its
// heartbeats to end. Should the dead one come back, it owns nothing.
func TestAnExclusiveNodeOutlivesADeadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		first := f.start(exclusive)
		f.settle(2*time.Second, first)
		first.kill()
		began := time.Now()
		second := f.start(exclusive)
		if d := time.Since(began); d < cluster.DefaultTTL/2 || d > cluster.DefaultTTL {
			t.Errorf("it took over after %v", d)
		}
		f.settle(2*time.Second, second)
		first.isolated.Store(false)
		first.awaitReplaced()
		f.settle(time.Second, second)
	})
}

// TestAnExclusiveNodeThatLapsedYields: a node that was admitted while an exclusive one was taken for dead
// stays.
func TestAnExclusiveNodeThatLapsedYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		first := f.start(exclusive)
		f.settle(2*time.Second, first)
		first.isolated.Store(true)
		f.refused("a", "a program with an embedded scheduler")
		sleep(cluster.DefaultTTL)
		a := f.start("a")
		sleep(cluster.DefaultTTL)
		f.settle(time.Second, a)
		first.isolated.Store(false)
		for range 400 { // 2 s: it is never given a share, which nobody would own
			if n := len(a.engine.Holdings()); n != parts {
				t.Fatalf("the other node has %d of %d partitions", n, parts)
			}
			sleep(5 * time.Millisecond)
		}
		first.awaitReplaced()
		if err := first.Ready(); err == nil {
			t.Error("it is ready")
		}
		f.settle(2*cluster.DefaultTTL, a)
	})
}

// awaitReplaced waits until a node finds that another process has its place.
func (n *node) awaitReplaced() {
	n.f.t.Helper()
	select {
	case <-n.Replaced():
	case <-time.After(5 * time.Second):
		n.f.t.Error("it goes on")
	}
}

// TestExclusiveAndOtherNodesStartAtOnce: whoever is admitted is alone, whatever the order.
func TestExclusiveAndOtherNodesStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		other := &store.Member{ID: "other", Address: "other", Nonce: 99, Capacity: 1}
		reads := 0
		f.onMembers = func() { // it joins between the two reads of a node that starts
			if reads++; reads == 2 {
				f.onMembers = nil
				if err := f.store.Leaser().Join(t.Context(), *other, time.Hour); err != nil {
					t.Error(err)
				}
			}
		}
		f.refused(exclusive, `node "other" at other uses it`)
		members, err := f.store.Leaser().Members(t.Context())
		if err != nil || len(members) != 1 || members[0].ID != "other" {
			t.Errorf("members %+v, %v", members, errors.Join(err))
		}
	})
}

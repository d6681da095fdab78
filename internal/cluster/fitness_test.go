package cluster_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhoCannotClaimGetsNoShare: a node that lives and cannot claim leaves its share to the others within
// seconds, says so, and gets the share back soon after it can claim again.
func TestWhoCannotClaimGetsNoShare(t *testing.T) {
	for _, fault := range []struct {
		what string
		on   func(n *node, is bool)
	}{
		{"its claims fail", func(n *node, is bool) { n.barred.Store(is) }},
		{"its writes fail", func(n *node, is bool) { n.mute.Store(is) }},
	} {
		t.Run(fault.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, a, b := pair(t)
				c := f.start("c")
				f.settle(2*time.Second, a, b, c)
				c.cut.Store(true)
				pass(5 * time.Second) // its terms have ended
				fault.on(c, true)
				c.cut.Store(false)
				f.settle(6*time.Second, a, b)
				if err := c.Ready(); err == nil {
					t.Error("it says that it is ready")
				}
				pass(time.Minute)
				f.settle(0, a, b)
				fault.on(c, false)
				f.shared(35*time.Second, a, b, c)
				if err := c.Ready(); err != nil {
					t.Errorf("when it can again: %v", err)
				}
			})
		})
	}
}

// TestANewNodeProvesItselfFirst: a node that cannot claim takes nothing from the others, not even for a
// moment.
func TestANewNodeProvesItselfFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		end := calling(t, a, time.Second, 0)
		defer end()
		f.prepare = func(c *node) { c.barred.Store(true) }
		c := f.start("c")
		for range 200 {
			f.settle(0, a, b)
			pass(100 * time.Millisecond)
		}
		end()
		c.barred.Store(false)
		f.shared(35*time.Second, a, b, c)
	})
}

// TestWhoseWritesFailLosesItsShare: the node's terms end one after the other, and it claims them again. Other
// nodes serve within seconds what it cannot serve.
func TestWhoseWritesFailLosesItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		f.settle(3*time.Second, a, b, c)
		c.mute.Store(true)
		end := calling(t, a, 8*time.Second, 20) // what was on its way is not known
		pass(10 * time.Second)
		end()
		f.settle(0, a, b)
		end = calling(t, a, time.Second, 0)
		pass(20 * time.Second)
		end()
		c.mute.Store(false)
		f.shared(35*time.Second, a, b, c)
	})
}

// TestWhatANodeCannotLoadGoesElsewhere: one node cannot read one partition, and serves the rest of its share.
func TestWhatANodeCannotLoadGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		p := b.engine.Holdings()[0].Partition
		b.cut.Store(true)
		pass(5 * time.Second)
		b.spoilt.Store(int64(p) + 1)
		b.cut.Store(false)
		f.settle(8*time.Second, a, b)
		if n := len(b.engine.Holdings()); n < parts/2-2 {
			t.Errorf("it owns %d partitions", n)
		}
	})
}

// TestNobodyIsUnfitWhileTheStoreIsAway: when the store is back everything is as before.
func TestNobodyIsUnfitWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		for _, n := range []*node{a, b} {
			n.cut.Store(true)
		}
		pass(time.Minute)
		for _, n := range []*node{a, b} {
			n.cut.Store(false)
		}
		f.settle(3*time.Second, a, b)
		for _, n := range []*node{a, b} {
			if n.log.count("unfit") > 0 {
				t.Errorf("%s called itself unfit", n.id)
			}
		}
	})
}

// TestAllAreUnfit: no node can write although all are members. When they can again they share as before.
func TestAllAreUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		a.mute.Store(true)
		b.mute.Store(true)
		end := calling(t, a, time.Minute, 1000)
		defer end()
		pass(time.Minute)
		a.mute.Store(false)
		f.settle(5*time.Second, a)
		b.mute.Store(false)
		f.shared(35*time.Second, a, b)
		end()
	})
}

// stumble makes the store refuse all writes of the nodes for a moment, during which each of their partitions
// writes something.
func (f *fleet) stumble(nodes ...*node) {
	f.t.Helper()
	for _, n := range nodes {
		n.mute.Store(true)
	}
	var puts sync.WaitGroup
	for i := range 8 * parts {
		n := nodes[i%len(nodes)]
		puts.Go(func() {
			_, _ = n.Router().PutJob(f.t.Context(), far(fmt.Sprint("stumble/", i))) // the store may refuse it
		})
	}
	pass(150 * time.Millisecond)
	for _, n := range nodes {
		n.mute.Store(false)
	}
	puts.Wait()
}

// TestAFaultOfTheStoreIsNoNodesFault: however often the store has the fault, at whatever interval, no node is
// blamed.
func TestAFaultOfTheStoreIsNoNodesFault(t *testing.T) {
	for _, every := range []time.Duration{700 * time.Millisecond, 1500 * time.Millisecond, 11 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, a, b := pair(t)
				for range 20 {
					f.stumble(a, b)
					pass(every)
				}
				f.shared(3*time.Second, a, b)
				for _, n := range []*node{a, b} {
					if k := n.log.count("cannot serve"); k > 0 {
						t.Errorf("%s called partitions %d times its own fault", n.id, k)
					}
				}
			})
		})
	}
}

// TestARefusedPartitionMayStumbleWithTheStore: a partition that was refused once is not refused again because
// of a fault that hits all partitions.
func TestARefusedPartitionMayStumbleWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := pair(t)
		p := b.engine.Holdings()[0].Partition
		b.cut.Store(true)
		pass(5 * time.Second)
		b.spoilt.Store(int64(p) + 1)
		b.cut.Store(false)
		pass(8 * time.Second)
		f.settle(0, a, b)
		if b.log.count("cannot serve") != 1 {
			t.Fatal("it was not refused")
		}
		b.spoilt.Store(0)
		pass(15 * time.Second)
		f.shared(3*time.Second, a, b)
		for range 10 {
			f.stumble(a, b)
			pass(1500 * time.Millisecond)
		}
		f.shared(3*time.Second, a, b)
		if k := b.log.count("cannot serve"); k != 1 {
			t.Errorf("it was refused %d times more", k-1)
		}
	})
}

// shared is settle with an equal share for each node.
func (f *fleet) shared(within time.Duration, living ...*node) {
	f.t.Helper()
	began := time.Now()
	for slices.ContainsFunc(living, func(n *node) bool { return len(n.engine.Holdings()) == 0 || n.Ready() != nil }) {
		if time.Since(began) > within {
			for _, n := range living {
				f.t.Logf("%s owns %d partitions, ready: %v", n.id, len(n.engine.Holdings()), n.Ready())
			}
			f.t.Fatalf("not shared within %v", within)
		}
		pass(5 * time.Millisecond)
	}
	f.settle(2*time.Second, living...)
}

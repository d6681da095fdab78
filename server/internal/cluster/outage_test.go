package cluster_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestNoNodeIsUnfitWhileStoreIsAway: when the store is back everything is as before.
func TestNoNodeIsUnfitWhileStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		for _, n := range []*node{a, b} {
			n.isolated.Store(true)
		}
		sleep(time.Minute)
		for _, n := range []*node{a, b} {
			n.isolated.Store(false)
		}
		f.settle(3*time.Second, a, b)
		for _, n := range []*node{a, b} {
			if n.log.count("unfit") > 0 {
				t.Errorf("%s called itself unfit", n.id)
			}
		}
	})
}

// failWrites makes the store refuse all writes of the nodes for a moment, during which each of their
// partitions writes something.
func (f *rig) failWrites(nodes ...*node) {
	f.t.Helper()
	for _, n := range nodes {
		n.writesFail.Store(true)
	}
	var puts sync.WaitGroup
	for i := range 8 * parts {
		n := nodes[i%len(nodes)]
		puts.Go(func() {
			_, _ = n.Router().PutJob(f.t.Context(), futureJob(fmt.Sprint("failWrites/", i))) // the store may refuse it
		})
	}
	sleep(150 * time.Millisecond)
	for _, n := range nodes {
		n.writesFail.Store(false)
	}
	puts.Wait()
}

// TestStoreFaultIsNotANodesFault: however often the store has the fault, at whatever interval, no node is
// blamed.
func TestStoreFaultIsNotANodesFault(t *testing.T) {
	for _, every := range []time.Duration{700 * time.Millisecond, 1500 * time.Millisecond, 11 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, a, b := twoNodes(t)
				for range 20 {
					f.failWrites(a, b)
					sleep(every)
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

// TestStoreFaultAddsNoRefusal: a partition that was refused once is not refused again because
// of a fault that hits all partitions.
func TestStoreFaultAddsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		p := b.engine.Holdings()[0].Partition
		b.isolated.Store(true)
		sleep(5 * time.Second)
		b.unreadable.Store(int64(p) + 1)
		b.isolated.Store(false)
		sleep(8 * time.Second)
		f.settle(0, a, b)
		if b.log.count("cannot serve") != 1 {
			t.Fatal("it was not refused")
		}
		b.unreadable.Store(0)
		sleep(15 * time.Second)
		f.shared(3*time.Second, a, b)
		for range 10 {
			f.failWrites(a, b)
			sleep(1500 * time.Millisecond)
		}
		f.shared(3*time.Second, a, b)
		if k := b.log.count("cannot serve"); k != 1 {
			t.Errorf("it was refused %d times more", k-1)
		}
	})
}

package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRefusedPartitionGoesToAnotherNode: one node cannot read one partition, and serves the rest of its
// share.
func TestRefusedPartitionGoesToAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		p := b.engine.Holdings()[0].Partition
		b.isolated.Store(true)
		sleep(5 * time.Second)
		b.unreadable.Store(int64(p) + 1)
		b.isolated.Store(false)
		f.settle(8*time.Second, a, b)
		if n := len(b.engine.Holdings()); n < parts/2-2 {
			t.Errorf("it owns %d partitions", n)
		}
	})
}

// TestAllNodesUnfit: no node can write although all are members. When they can again they share as before.
func TestAllNodesUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		a.writesFail.Store(true)
		b.writesFail.Store(true)
		end := keepPutting(t, a, time.Minute, 1000)
		defer end()
		sleep(time.Minute)
		a.writesFail.Store(false)
		f.settle(5*time.Second, a)
		b.writesFail.Store(false)
		f.shared(35*time.Second, a, b)
		end()
	})
}

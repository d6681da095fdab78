package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestNodeWithWrongClockOwnsNothing: the node owns nothing until its clock is right again.
func TestNodeWithWrongClockOwnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		b.clockAhead.Store(int64(-2 * time.Second))
		sleep(2500 * time.Millisecond)
		f.settle(time.Second, a)
		if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("b is ready: %v", err)
		}
		s, err := a.ClusterStatus(t.Context())
		if err != nil || s.Nodes[1].Skew != -2*time.Second || !s.Nodes[1].SkewKnown || !s.Nodes[1].Draining {
			t.Errorf("status %+v, %v", s.Nodes, err)
		}
		b.clockAhead.Store(0)
		sleep(2500 * time.Millisecond)
		f.settle(2*time.Second, a, b)
		if len(b.engine.Holdings()) == 0 {
			t.Error("b owns nothing")
		}
	})
}

// TestSlowClockReadingsLoseNothing: a slow reading of the store's clock loses nothing that is known, and a
// clock that is set is noticed.
func TestSlowClockReadingsLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		a.clockDelay.Store(int64(900 * time.Millisecond))
		sleep(5 * time.Second)
		if off := time.Until(a.StoreNow()).Abs(); off > 10*time.Millisecond {
			t.Errorf("the store's clock is taken to be %v off", off)
		}
		a.clockDelay.Store(0)
		a.clockAhead.Store(int64(700 * time.Millisecond))
		sleep(3 * time.Second)
		if off := time.Until(a.StoreNow()).Abs(); off > 10*time.Millisecond {
			t.Errorf("after the clock was set, the store's is taken to be %v off", off)
		}
	})
}

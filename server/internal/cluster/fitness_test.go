package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestUnfitNodeGetsNoShare: a node that lives and cannot claim leaves its share to the others within
// seconds, says so, and gets the share back soon after it can claim again.
func TestUnfitNodeGetsNoShare(t *testing.T) {
	for _, fault := range []struct {
		what string
		on   func(n *node, is bool)
	}{
		{"its claims fail", func(n *node, is bool) { n.claimsFail.Store(is) }},
		{"its writes fail", func(n *node, is bool) { n.writesFail.Store(is) }},
	} {
		t.Run(fault.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, a, b := twoNodes(t)
				c := f.start("c")
				f.settle(2*time.Second, a, b, c)
				c.isolated.Store(true)
				sleep(5 * time.Second) // its terms have ended
				fault.on(c, true)
				c.isolated.Store(false)
				f.settle(6*time.Second, a, b)
				if err := c.Ready(); err == nil {
					t.Error("it says that it is ready")
				}
				sleep(time.Minute)
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

// TestFailingWritesLoseTheShare: the node's terms end one after the other, and it claims them again. Other
// nodes serve within seconds what it cannot serve.
func TestFailingWritesLoseTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		f.settle(3*time.Second, a, b, c)
		c.writesFail.Store(true)
		end := keepPutting(t, a, 8*time.Second, 20) // what was on its way is not known
		sleep(10 * time.Second)
		end()
		f.settle(0, a, b)
		end = keepPutting(t, a, time.Second, 0)
		sleep(20 * time.Second)
		end()
		c.writesFail.Store(false)
		f.shared(35*time.Second, a, b, c)
	})
}

package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestJoiningNodeProvesItselfFirst: a node that cannot claim takes nothing from the others, not even for a
// moment.
func TestJoiningNodeProvesItselfFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		end := keepPutting(t, a, time.Second, 0)
		defer end()
		f.beforeStart = func(c *node) { c.claimsFail.Store(true) }
		c := f.start("c")
		for range 200 {
			f.settle(0, a, b)
			sleep(100 * time.Millisecond)
		}
		end()
		c.claimsFail.Store(false)
		f.shared(35*time.Second, a, b, c)
	})
}

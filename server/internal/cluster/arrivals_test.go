package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon/server/internal/cluster"
)

// TestLostNodesAreNamedOnce: the others name a node that was killed and one that left, once each, and tell the
// two apart.
func TestLostNodesAreNamedOnce(t *testing.T) {
	const lost, left, joined = `"a node is lost: `, `"a node has left"`, `"a node has joined"`
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		c, d := f.start("c"), f.start("d")
		f.shared(20*time.Second, a, b, c, d)
		for _, n := range []*node{a, b} {
			if n.log.count(lost)+n.log.count(left) != 0 {
				t.Errorf("%s misses somebody", n.id)
			}
		}
		if a.log.count(joined) != 3 || d.log.count(joined) != 0 {
			t.Errorf("a has seen %d nodes join, and d %d", a.log.count(joined), d.log.count(joined))
		}
		b.kill()
		f.settle(3*cluster.DefaultTTL, a, c, d)
		if err := c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = c.engine.Stop(context.Background()) // it owns nothing
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		sleep(3 * cluster.DefaultTTL)
		for _, n := range []*node{a, d} {
			if n.log.count(lost) != 1 || n.log.count(`have ended" node=b `) != 1 || n.log.count(left) != 1 ||
				n.log.count(left+" node=c ") != 1 {
				t.Errorf("%s says:\n%s", n.id, n.log.b.String())
			}
		}
	})
}

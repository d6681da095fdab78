package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
)

// limit is what a node believes to be the limit of an actor type.
func (n *node) limit() string {
	for _, t := range n.engine.LimitTallies() {
		if t.Limit == delivery.ActorLimit(carillon.DefaultNamespace, "cat", "") {
			most, _ := n.engine.LimitOf(t.Limit)
			return fmt.Sprint(most)
		}
	}
	return "none"
}

// name names a limit as a sidecar does that connects to the node.
func (n *node) name(most int) (end func()) {
	n.f.t.Helper()
	end, err := n.engine.NameLimits([]delivery.NamedLimit{
		{Limit: delivery.ActorLimit(carillon.DefaultNamespace, "cat", ""), Most: most}})
	if err != nil {
		n.f.t.Fatal(err)
	}
	return end
}

// knowing checks what nodes believe.
func knowing(t *testing.T, when, want string, nodes ...*node) {
	t.Helper()
	synctest.Wait()
	for _, n := range nodes {
		if got := n.limit(); got != want {
			t.Errorf("%s: node %s believes %s, not %s", when, n.id, got, want)
		}
	}
}

// TestAllNodesKnowTheLimitsOfSidecars: at once, of those that are named again, or end; those who join, and
// those who are cut off; until the node is lost whose sidecars have named them.
func TestAllNodesKnowTheLimitsOfSidecars(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		f.settle(3*time.Second, a, b, c)
		end := a.name(6)
		knowing(t, "named", "6", a, b, c)
		sleep(time.Millisecond)
		more := b.name(3)
		knowing(t, "named again", "3", a, b, c)
		d := f.start("d")
		sleep(2 * time.Second)
		knowing(t, "a node has joined", "3", a, b, c, d)
		more()
		knowing(t, "the newest has ended", "6", a, b, c, d)
		end()
		knowing(t, "all have ended", "none", a, b, c, d)
		a.name(5)
		knowing(t, "named again", "5", a, b, c, d)
		a.kill()
		sleep(2 * time.Second)
		knowing(t, "its node may still live", "5", b, c, d)
		sleep(time.Minute)
		knowing(t, "its node is lost", "none", b, c, d)
		e := f.start("a")
		e.name(9)
		sleep(2 * time.Second)
		knowing(t, "its node has come back", "9", b, c, d, e)
	})
}

// deaf is a node that hears of no limits, or forgets whatever it hears.
type deaf struct {
	cluster.Control
	err   error
	calls *atomic.Int64
}

// HearLimits implements [cluster.Control].
func (d deaf) HearLimits(ctx context.Context, table *message.LimitTable) error {
	if d.calls.Add(1); d.err != nil {
		return d.err
	}
	return d.Control.HearLimits(ctx, table)
}

// TestANodeIsToldOfLimitsAgain: soon if it was not reached, now and then if it was, and no more once there is
// nothing to tell. Clusters without sidecars tell nothing.
func TestANodeIsToldOfLimitsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		least, most int64 // within 22 s
		after       int64 // and within 20 s of the end of the stream
	}{
		"reached":     {nil, 4, 6, 1},
		"not reached": {carillon.Errorf(carillon.Unavailable, "", "%w", cluster.ErrUnreached), 30, 50, 30},
		"older":       {carillon.Errorf(carillon.Unavailable, "", "%w", cluster.ErrOlder), 4, 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newRig(t)
				var calls atomic.Int64
				f.control = func(to cluster.Control) cluster.Control { return deaf{to, c.err, &calls} }
				a, b := f.start("a"), f.start("b")
				f.settle(3*time.Second, a, b)
				if sleep(20 * time.Second); calls.Load() != 0 {
					t.Fatal("told although nothing was named")
				}
				end := a.name(6)
				sleep(22 * time.Second) // it ends while nobody is being told
				if n := calls.Swap(0); n < c.least || n > c.most {
					t.Errorf("told %d times", n)
				}
				end()
				sleep(20 * time.Second)
				if n := calls.Load(); n < c.after || c.after == 1 && n != 1 {
					t.Errorf("told %d times of the end", n)
				}
				if errors.Is(c.err, cluster.ErrUnreached) {
					return
				}
				if sleep(20 * time.Second); calls.Load() != c.after {
					t.Error("it goes on telling")
				}
			})
		})
	}
}

// stuck is a node that does not answer when it is told of limits, as long as on is set.
type stuck struct {
	cluster.Control
	on *atomic.Bool
}

// HearLimits implements [cluster.Control].
func (s stuck) HearLimits(ctx context.Context, table *message.LimitTable) error {
	if s.on.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Control.HearLimits(ctx, table)
}

// TestASilentNodeDelaysNoOther from hearing of limits that change while it is being told.
func TestASilentNodeDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		var on atomic.Bool
		f.control = func(to cluster.Control) cluster.Control {
			if n, ok := to.(*node); ok && n.id == "c" {
				return stuck{to, &on}
			}
			return to
		}
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		f.settle(3*time.Second, a, b, c)
		on.Store(true)
		for most := 6; most < 20; most++ {
			end := a.name(most)
			knowing(t, "named while a node hangs", fmt.Sprint(most), a, b)
			sleep(100 * time.Millisecond)
			end()
		}
		knowing(t, "ended while a node hangs", "none", a, b, c)
		a.name(5)
		on.Store(false)
		sleep(3 * time.Second)
		knowing(t, "it answers again", "5", a, b, c)
	})
}

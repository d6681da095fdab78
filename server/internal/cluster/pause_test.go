package cluster_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// pausedAt returns which of the nodes know that the queue "q" is paused.
func pausedAt(nodes ...*node) (ids []string) {
	for _, n := range nodes {
		if _, ok := n.engine.PausedQueues()[delivery.Queue{Namespace: "default", Kind: "worker", Address: "q"}]; ok {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// unanswering is a control that does not answer when queues are paused.
type unanswering struct{ cluster.Control }

func (unanswering) ReloadQueues(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

var queueQ = carillon.QueueKey{Name: "q"}

// TestAPauseIsInForceAtAllNodes when it is answered, whichever is asked. One that does not answer is named
// after 2 s, and follows.
func TestAPauseIsInForceAtAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		f.control = func(c cluster.Control) cluster.Control {
			if n, ok := c.(*node); ok && n.id == "c" {
				return unanswering{c}
			}
			return c
		}
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		f.shared(10*time.Second, a, b, c)
		for _, asked := range []*node{a, b} {
			began, note := time.Now(), "by "+asked.id
			change, err := asked.PauseQueue(t.Context(), queueQ, note)
			if err != nil || change.Pause.Note != note || !slices.Equal(change.Unheard, []string{"c"}) ||
				time.Since(began) > 2*time.Second {
				t.Errorf("%s: %+v after %v, %v", asked.id, change, time.Since(began), err)
			}
			if at := pausedAt(a, b); len(at) != 2 {
				t.Errorf("paused at %v", at)
			}
		}
		sleep(3 * time.Second)
		if at := pausedAt(c); len(at) != 1 {
			t.Error("the one that has not heard does not follow")
		}
		change, err := c.ResumeQueue(t.Context(), queueQ)
		if err != nil || change.Unheard != nil || change.Pause != (carillon.QueuePause{}) {
			t.Errorf("%+v, %v", change, err)
		}
		if at := pausedAt(a, b, c); at != nil {
			t.Errorf("still paused at %v", at)
		}
	})
}

// late is a control that cannot be reached at first.
type late struct {
	cluster.Control
	fails *atomic.Int64
}

func (l late) ReloadQueues(ctx context.Context) error {
	if l.fails.Add(-1) >= 0 {
		return cluster.ErrUnreached
	}
	return l.Control.ReloadQueues(ctx)
}

// TestAPauseWaitsForAConnection that is not there yet, rather than to say that the node has not heard.
func TestAPauseWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		fails := &atomic.Int64{}
		f.control = func(c cluster.Control) cluster.Control { return late{c, fails} }
		a, b := f.start("a"), f.start("b")
		f.shared(10*time.Second, a, b)
		fails.Store(5)
		change, err := a.PauseQueue(t.Context(), queueQ, "")
		if at := pausedAt(a, b); err != nil || change.Unheard != nil || len(at) != 2 {
			t.Errorf("%+v, %v, paused at %v", change, err, at)
		}
	})
}

// TestAPauseWithoutANode: one that is dead, or no member any more, and still has partitions, is named. One that
// comes knows.
func TestAPauseWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		c := f.start("c")
		f.shared(10*time.Second, a, b, c)
		c.kill()
		synctest.Wait()
		change, err := a.PauseQueue(t.Context(), queueQ, "")
		if err != nil || !slices.Equal(change.Unheard, []string{"c"}) {
			t.Errorf("%+v, %v", change, err)
		}
		d := f.start("d")
		f.settle(30*time.Second, a, b, d)
		if at := pausedAt(a, b, d); len(at) != 3 {
			t.Errorf("paused at %v", at)
		}
		if change, err := d.PauseQueue(t.Context(), queueQ, ""); err != nil || change.Unheard != nil {
			t.Errorf("without the dead one: %+v, %v", change, err)
		}
	})
}

// TestAPauseByANodeThatCannotReadTheMembers: it is durable, which the error says, and all follow.
func TestAPauseByANodeThatCannotReadTheMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := twoNodes(t)
		f.shared(10*time.Second, a, b)
		home, other := a, b
		if !slices.ContainsFunc(a.engine.Holdings(), func(h store.Holding) bool { return h.Partition == 0 }) {
			home, other = b, a
		}
		other.noStore.Store(true)
		_, err := other.PauseQueue(t.Context(), queueQ, "")
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || e.Unknown {
			t.Errorf("got %v", err)
		}
		other.noStore.Store(false)
		sleep(5 * time.Second)
		if at := pausedAt(home, other); len(at) != 2 {
			t.Errorf("paused at %v", at)
		}
	})
}

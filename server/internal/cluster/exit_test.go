package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestLastNodeLeaves: calls to it fail at once when its engine has stopped, as no other node could serve
// them.
func TestLastNodeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := oneNode(t)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.end()
		began := time.Now()
		_, err := a.Router().PutJob(t.Context(), futureJob("late"))
		if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || e.Unknown {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

// TestSuccessorOfLastNodeIsKilled: the leaving node has no other node left, and takes back what it had
// handed over.
func TestSuccessorOfLastNodeIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		a := f.start("a")
		f.settle(time.Second, a)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := f.start("b")
		f.settle(2*time.Second, b)
		b.kill()
		sleep(10 * time.Second)
		if _, err := a.Router().PutJob(t.Context(), futureJob("late")); err != nil {
			t.Errorf("got %v", err)
		}
		f.settle(0, a)
	})
}

// TestNodeJoinsWhileLastNodeDrains: a joining node gets the partitions of a node that had nobody to
// leave them to and that hands out nothing while it waits for attempts in force. The drain ends.
func TestNodeJoinsWhileLastNodeDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a := oneNode(t)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		sleep(3 * time.Second)
		if n := len(a.engine.Holdings()); n != parts {
			t.Fatalf("with nobody there it holds %d partitions", n)
		}
		b := f.start("b")
		f.settle(2*time.Second, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.engine.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
	})
}

// TestAllNodesLeaveAtOnce: nodes that are told to leave at the same moment, or shortly after each other, do
// not hand partitions to a node that then does not serve them: every partition is served until the last node
// has stopped.
func TestAllNodesLeaveAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	for _, n := range []int{1, 2, 3, 5} {
		for _, gap := range []time.Duration{0, time.Millisecond, 7 * time.Millisecond, 40 * time.Millisecond} {
			for _, lag := range []time.Duration{0, 5 * time.Millisecond} {
				t.Run(fmt.Sprintf("%d nodes, %v apart, store %v", n, gap, lag), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newRig(t)
						var nodes []*node
						for i := range n {
							nodes = append(nodes, f.start(string(rune('a'+i))))
						}
						f.settle(3*time.Second, nodes...)
						var all sync.WaitGroup
						for i, x := range nodes {
							x.membersDelay.Store(int64(lag))
							all.Go(func() {
								sleep(time.Duration(i) * gap)
								if err := x.Leave(t.Context()); err != nil {
									t.Errorf("%s leaves: %v", x.id, err)
								}
							})
						}
						all.Wait()
						end := keepPutting(t, nodes[0], 1500*time.Millisecond, 0)
						defer end()
						sleep(2 * time.Second)
						end()
						for range 20 { // it is served from then on
							f.settle(0, nodes...)
							sleep(500 * time.Millisecond)
						}
					})
				})
			}
		}
	}
}

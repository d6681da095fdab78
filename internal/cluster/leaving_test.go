package cluster_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAllLeaveAtOnce: nodes that are told to leave at the same moment, or shortly after each other, do not
// hand partitions to a node that then does not serve them: every partition is served until the last node has
// stopped.
func TestAllLeaveAtOnce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5} {
		for _, gap := range []time.Duration{0, time.Millisecond, 7 * time.Millisecond, 40 * time.Millisecond} {
			for _, lag := range []time.Duration{0, 5 * time.Millisecond} {
				t.Run(fmt.Sprintf("%d nodes, %v apart, store %v", n, gap, lag), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFleet(t)
						var nodes []*node
						for i := range n {
							nodes = append(nodes, f.start(string(rune('a'+i))))
						}
						f.settle(3*time.Second, nodes...)
						var all sync.WaitGroup
						for i, x := range nodes {
							x.lag.Store(int64(lag))
							all.Go(func() {
								pass(time.Duration(i) * gap)
								if err := x.Leave(t.Context()); err != nil {
									t.Errorf("%s leaves: %v", x.id, err)
								}
							})
						}
						all.Wait()
						end := calling(t, nodes[0], 1500*time.Millisecond, 0)
						defer end()
						pass(2 * time.Second)
						end()
						for range 20 { // it is served from then on
							f.settle(0, nodes...)
							pass(500 * time.Millisecond)
						}
					})
				})
			}
		}
	}
}

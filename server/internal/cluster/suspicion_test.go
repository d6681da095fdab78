package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
)

// TestOldNodeThatTakesNothingIsSuspect: a node of a version that states nothing about itself cannot claim.
// The others find out within seconds, own its share, and give it one partition now and then. When it takes
// that, it gets the others too.
func TestOldNodeThatTakesNothingIsSuspect(t *testing.T) {
	for _, fault := range []struct {
		what string
		on   func(n *node, is bool)
	}{
		{"its claims fail", func(n *node, is bool) { n.claimsFail.Store(is) }},
		{"its writes fail", func(n *node, is bool) { n.writesFail.Store(is) }},
	} {
		t.Run(fault.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newRig(t)
				b, c := f.start("b"), f.start("c")
				f.settle(2*time.Second, b, c)
				f.beforeStart = func(n *node) {
					n.noCondition.Store(true)
					fault.on(n, true)
				}
				a := f.start("a") // the first by name
				f.settle(0, b, c)
				sleep(2 * time.Second)
				f.settle(10*time.Second, b, c)
				status, err := b.ClusterStatus(t.Context())
				if err != nil || status.Nodes[0].State != carillon.NodeUnfit || status.Nodes[0].Owns != 0 {
					t.Errorf("status: %+v, %v", status.Nodes, err)
				}
				away := 0
				for range 600 { // a minute, in which it is given one partition for a moment
					if counts := f.owners(); countOf(counts, 0) > 1 {
						t.Fatalf("owners %v", counts)
					} else if countOf(counts, 0) > 0 {
						away++
					}
					sleep(100 * time.Millisecond)
				}
				if away > 120 {
					t.Errorf("a partition was out of service for %d of 600 looks", away)
				}
				fault.on(a, false)
				f.shared(4*time.Minute, a, b, c)
			})
		})
	}
}

// TestHealthyOldNodeHasItsShare: if nothing is wrong with the node, nodes of both versions agree on who owns
// what.
func TestHealthyOldNodeHasItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRig(t)
		f.beforeStart = func(n *node) { n.noCondition.Store(n.id == "b") }
		a, b, c := f.start("a"), f.start("b"), f.start("c")
		f.shared(3*time.Second, a, b, c)
		for range 60 {
			sleep(time.Second)
			f.settle(0, a, b, c)
		}
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

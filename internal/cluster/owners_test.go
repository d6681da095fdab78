package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/store"
)

// draw is some members with made-up names, by id as a store gives them.
func draw(r *rand.Rand, n int) []store.Member {
	var members []store.Member
	for i := range n {
		members = append(members, store.Member{ID: fmt.Sprintf("node-%d-%x", i, r.Uint32()), Capacity: min(1, r.IntN(5))})
	}
	return members
}

// TestOnlyWhatMustMoves: when a node comes it gets partitions, and nobody else does; when one goes only what it had is moved. The
// order in which the members are known makes no difference.
func TestOnlyWhatMustMoves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		members := draw(r, 1+r.IntN(8))
		last := len(members) - 1
		members[last].Capacity = 1
		shuffled := slices.Clone(members)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for p := range 256 {
			with, without := best(members, p), best(members[:last], p)
			if with != without && with != members[last].ID {
				t.Fatalf("partition %d goes from %q to %q because %q has come", p, without, with, members[last].ID)
			}
			if other := best(shuffled, p); other != with {
				t.Fatalf("partition %d: %q or %q", p, with, other)
			}
		}
	}
}

// TestSharesAreEven: over many clusters of three, each node has about a third.
func TestSharesAreEven(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		members := draw(r, 3)
		counts := map[string]int{}
		for i := range members {
			members[i].Capacity = 1
		}
		for p := range 4096 {
			counts[best(members, p)]++
		}
		for id, n := range counts {
			if n < 1150 || n > 1580 { // 1,365; the standard deviation is 30
				t.Errorf("%s owns %d of 4096", id, n)
			}
		}
	}
}

// TestNobodyMayOwn: without capacity there is no owner.
func TestNobodyMayOwn(t *testing.T) {
	if id := best([]store.Member{{ID: "a"}}, 0); id != "" {
		t.Errorf("%q", id)
	}
}

package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

// draw returns random members, sorted by id as a store returns them; about one in five is to own nothing.
func draw(r *rand.Rand, n int) []store.Member {
	var members []store.Member
	for i := range n {
		members = append(members, store.Member{ID: fmt.Sprintf("node-%d-%x", i, r.Uint32()),
			Capacity: min(1, r.IntN(5))})
	}
	return members
}

// able returns how many members may own partitions.
func able(members []store.Member) (n int) {
	for _, m := range members {
		if m.Capacity > 0 {
			n++
		}
	}
	return n
}

// TestSharesHaveEqualSize: shares differ only as far as the division leaves a remainder, members without
// capacity own nothing, and the order in which the members are known makes no difference.
func TestSharesHaveEqualSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		members, parts := draw(r, 1+r.IntN(8)), 1+r.IntN(100)
		owners := shares(members, parts)
		counts := map[string]int{}
		for _, id := range owners {
			counts[id]++
		}
		for _, m := range members {
			n := able(members)
			if got := counts[m.ID]; m.Capacity == 0 && got > 0 || m.Capacity > 0 && got > (parts+n-1)/n {
				t.Fatalf("%s of %d owns %d of %d", m.ID, n, got, parts)
			}
		}
		if able(members) > 0 && counts[""] > 0 {
			t.Fatalf("%d of %d partitions have no owner", counts[""], parts)
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		if !slices.Equal(shares(members, parts), owners) {
			t.Fatal("the order of the members makes a difference")
		}
	}
}

// TestFewUnnecessaryMoves: when two nodes become three, on average at most 1.2 times as much moves as
// must.
func TestFewUnnecessaryMoves(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const parts, rounds = 64, 200
	moved, must := 0, 0
	for range rounds {
		members := draw(r, 5)
		for i := range members {
			members[i].Capacity = 1
		}
		before, after := shares(members[:3], parts), shares(members, parts)
		for p := range parts {
			if before[p] != after[p] {
				moved++
			}
			if after[p] == members[3].ID || after[p] == members[4].ID {
				must++
			}
		}
	}
	if 5*moved > 6*must {
		t.Errorf("%d moves, where %d must be", moved, must)
	}
}

// TestNoCapacityNoOwner: if no member has capacity, no partition has an owner.
func TestNoCapacityNoOwner(t *testing.T) {
	if owners := shares([]store.Member{{ID: "a"}}, 1); owners[0] != "" {
		t.Errorf("%q", owners[0])
	}
}

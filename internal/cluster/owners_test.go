package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/store"
)

const someParts = 64

// draw is n members with made-up names that may own partitions, by id as a store gives them.
func draw(r *rand.Rand, n int) []store.Member {
	var members []store.Member
	for i := range n {
		members = append(members, store.Member{ID: fmt.Sprintf("node-%d-%x", i, r.Uint32()), Capacity: 1})
	}
	return members
}

// TestSharesHaveOneSize: every partition has an owner, none has more than its share, and the order in which the members are known
// makes no difference.
func TestSharesHaveOneSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		members := draw(r, 1+r.IntN(8))
		owners := shares(members, someParts)
		counts := map[string]int{}
		for _, id := range owners {
			counts[id]++
		}
		most := (someParts + len(members) - 1) / len(members)
		for id, n := range counts {
			if id == "" || n > most {
				t.Fatalf("%q owns %d of %d, of %d members", id, n, someParts, len(members))
			}
		}
		shuffled := slices.Clone(members)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if other := shares(shuffled, someParts); !slices.Equal(other, owners) {
			t.Fatalf("%v or %v", owners, other)
		}
	}
}

// TestLittleMoves: when a node comes, or goes, not much more moves than must: over many clusters, 1.3 times what the newcomer gets.
func TestLittleMoves(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	moved, least := 0, 0
	for range 500 {
		members := draw(r, 2+r.IntN(6))
		last := len(members) - 1
		with, without := shares(members, someParts), shares(members[:last], someParts)
		for p := range with {
			if with[p] == members[last].ID {
				least++
			}
			if with[p] != without[p] {
				moved++
			}
		}
	}
	if moved*10 > least*13 {
		t.Errorf("%d have moved; %d had to", moved, least)
	}
}

// TestWithoutCapacity: such a member owns nothing, as if it were not there.
func TestWithoutCapacity(t *testing.T) {
	members := draw(rand.New(rand.NewPCG(5, 6)), 4)
	members[3].Capacity = 0
	if !slices.Equal(shares(members, someParts), shares(members[:3], someParts)) {
		t.Error("it counts")
	}
	if owners := shares(members[3:], someParts); slices.Max(owners) != "" {
		t.Errorf("it owns: %v", owners)
	}
}

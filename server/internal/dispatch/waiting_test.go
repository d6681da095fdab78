package dispatch

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// TestBestClaimIsFirst pushes and removes claims at random and compares the first with that of a sorted list.
func TestBestClaimIsFirst(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var w waiting
	var list []*claim
	for p := range 5000 {
		if rnd.IntN(5) < 3 {
			c := &claim{p: delivery.Owner{Partition: p},
				head: delivery.Head{Priority: uint8(rnd.IntN(3)), Due: int64(rnd.IntN(9))}}
			w.push(c)
			list = append(list, c)
		} else if len(list) > 0 {
			i := rnd.IntN(len(list))
			w.remove(list[i])
			w.remove(list[i]) // once more does nothing
			list = slices.Delete(list, i, i+1)
		}
		best := slices.MinFunc(append([]*claim{{head: delivery.Head{Priority: 9}}}, list...),
			func(a, b *claim) int {
				if d := a.head.Compare(b.head); d < 0 || d == 0 && a.p.Partition < b.p.Partition {
					return -1
				}
				return 1
			})
		if len(w) != len(list) || len(list) > 0 && w[0] != best {
			t.Fatalf("%d wait, not %d, or the first is not the best", len(w), len(list))
		}
	}
}

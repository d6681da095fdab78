package store

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestRefsHaveATotalOrder: by namespace, then name, then sequence.
func TestRefsHaveATotalOrder(t *testing.T) {
	var ordered []Ref
	for _, namespace := range []string{"a", "a-", "b"} {
		for _, name := range []string{"", "x", "x/y", "y"} {
			for seq := range uint64(3) {
				ordered = append(ordered, Ref{Key: carillon.Key{Namespace: namespace, Name: name}, Seq: seq})
			}
		}
	}
	shuffled := slices.Clone(ordered)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled),
		func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, Ref.Compare)
	if !slices.Equal(shuffled, ordered) {
		t.Errorf("sorted: %v", shuffled)
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, back := a.Compare(b), b.Compare(a); got != -back || (got == 0) != (i == j) {
				t.Fatalf("%v and %v: %d, and the other way %d", a, b, got, back)
			}
		}
	}
}

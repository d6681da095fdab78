package stream

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestWaitingAgainstAList does the same to the queue and to a list.
func TestWaitingAgainstAList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var w waiting
	var list []*Attempt
	for range 20_000 {
		switch n := rnd.IntN(9); {
		case n < 4:
			a := &Attempt{Run: &carillon.Run{}, size: rnd.IntN(100)}
			w.add(a)
			list = append(list, a)
		case n < 7 && len(list) > 0:
			i := rnd.IntN(len(list))
			w.drop(list[i])
			list = slices.Delete(list, i, i+1)
			if 2*w.void >= max(1, len(w.queue)) {
				t.Fatalf("%d of %d places are void", w.void, len(w.queue))
			}
		case len(list) > 0:
			if w.first() != list[0] {
				t.Fatal("another is first")
			}
			w.pop()
			list = list[1:]
		}
		bytes := 0
		for _, a := range list {
			bytes += a.size
		}
		if w.len() != len(list) || w.bytes != bytes {
			t.Fatalf("%d of %d, %d of %d bytes", w.len(), len(list), w.bytes, bytes)
		}
	}
	if len(list) == 0 && w.first() != nil {
		t.Error("something is left")
	}
}

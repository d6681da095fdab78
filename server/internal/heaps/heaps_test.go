package heaps

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// customer is somebody in a heap.
type customer struct {
	order int
	at    int32
}

func (c *customer) Before(o *customer) bool { return c.order < o.order }
func (c *customer) At() *int32              { return &c.at }

// TestAHeapGivesTheFirst whoever leaves it from the middle, and each knows where it stands.
func TestAHeapGivesTheFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l Of[*customer]
		var in []*customer // what a list would hold
		for range rapid.IntRange(0, 100).Draw(rt, "steps") {
			if len(in) == 0 || rapid.Bool().Draw(rt, "come") {
				c := &customer{order: rapid.IntRange(0, 9).Draw(rt, "order"), at: -1}
				l.Add(c)
				in = append(in, c)
			} else {
				i := rapid.IntRange(0, len(in)-1).Draw(rt, "who")
				l.Remove(in[i])
				l.Remove(in[i]) // harmless
				if in[i].at != -1 {
					rt.Fatalf("who has left is at %d", in[i].at)
				}
				in = slices.Delete(in, i, i+1)
			}
			for i, c := range l {
				if int(c.at) != i || c.order < l[0].order || !slices.Contains(in, c) {
					rt.Fatalf("at %d is %+v, the first is %+v", i, *c, *l[0])
				}
			}
			if len(l) != len(in) {
				rt.Fatalf("%d are in the heap, want %d", len(l), len(in))
			}
		}
	})
}

package permit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// customer is somebody in a line.
type customer struct{ order, at int }

func (c *customer) before(o *customer) bool { return c.order < o.order }
func (c *customer) index() *int             { return &c.at }

// TestALineGivesTheFirst whoever leaves it from the middle, and each knows where it stands.
func TestALineGivesTheFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l line[*customer]
		var in []*customer // what a list would hold
		for range rapid.IntRange(0, 100).Draw(rt, "steps") {
			if len(in) == 0 || rapid.Bool().Draw(rt, "come") {
				c := &customer{order: rapid.IntRange(0, 9).Draw(rt, "order"), at: -1}
				l.add(c)
				in = append(in, c)
			} else {
				i := rapid.IntRange(0, len(in)-1).Draw(rt, "who")
				l.remove(in[i])
				l.remove(in[i]) // harmless
				if in[i].at != -1 {
					rt.Fatalf("who has left is at %d", in[i].at)
				}
				in = slices.Delete(in, i, i+1)
			}
			for i, c := range l {
				if c.at != i || c.order < l[0].order || !slices.Contains(in, c) {
					rt.Fatalf("at %d is %+v, the first is %+v", i, *c, *l[0])
				}
			}
			if len(l) != len(in) {
				rt.Fatalf("%d are in the line, want %d", len(l), len(in))
			}
		}
	})
}

package deliveries

import (
	"cmp"
	"slices"
)

// Again is an attempt that came once more.
type Again struct {
	Before, Now Delivery
	Breaks      []Break // that may have ended its owner in between; none: it has no excuse
}

// CameAgain are the attempts that came more than once, in the order in which they came again.
func CameAgain(l Ledger, h History) (out []Again) {
	a := newAudit(l, h)
	for _, id := range a.ids {
		last := map[int]Delivery{}
		for _, d := range a.runs[id].seen {
			if before, again := last[d.Attempt]; again {
				x := Again{Before: before, Now: d}
				for _, b := range h.Breaks {
					if b.Ends && b.meets(before.At, d.At, h.Slack.Wire) {
						x.Breaks = append(x.Breaks, b)
					}
				}
				out = append(out, x)
			}
			last[d.Attempt] = d
		}
	}
	slices.SortStableFunc(out, func(x, y Again) int { return x.Now.At.Compare(y.Now.At) })
	return out
}

// Cause is the closest of its breaks in words: that the node which had handed it out was killed; else what
// was done to that node, or to nobody by name; else what was done to another.
func (a *Again) Cause() string {
	if len(a.Breaks) == 0 {
		return "nothing was wrong"
	}
	far := func(b Break) int {
		switch own := b.Node == a.Before.Node; {
		case own && b.Kind == Kill:
			return 0
		case own:
			return 1
		case b.Node == "":
			return 2
		default:
			return 3
		}
	}
	b := slices.MinFunc(a.Breaks, func(x, y Break) int {
		return cmp.Or(cmp.Compare(far(x), far(y)), cmp.Compare(x.To.Sub(x.From), y.To.Sub(y.From)))
	})
	if far(b) == 3 {
		return b.Kind + " of another node"
	}
	return b.Kind
}

package multisession

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon"
)

// sent is credits that an allocation has given to a node.
type sent struct {
	to *node
	c  carillon.Credit
}

// TestAllocationBringsCreditsToTheirPools: each queue has its own, and nothing moves after the end.
func TestAllocationBringsCreditsToTheirPools(t *testing.T) {
	var moves []sent
	var answers []carillon.Credit
	a := newAllocation([]string{"p", "q"}, func() {})
	a.send = func(n *node, c carillon.Credit) { moves = append(moves, sent{n, c}) }
	a.answer = func(c carillon.Credit) { answers = append(answers, c) }
	n := &node{}
	want := func(what string, want ...sent) {
		t.Helper()
		if !slices.Equal(moves, want) {
			t.Errorf("%s: %v, want %v", what, moves, want)
		}
		moves = nil
	}
	a.join(n)
	want("no credits yet")
	a.change([]carillon.Credit{{Queue: "q", N: 2}, {Queue: "p", N: 1}})
	want("granted", sent{n, carillon.Credit{Queue: "q", N: 2}}, sent{n, carillon.Credit{Queue: "p", N: 1}})
	a.came(n, "q", 1)
	a.freed("q")
	want("a run is dropped", sent{n, carillon.Credit{Queue: "q", N: 1}})
	a.expired(n, "p")
	want("another", sent{n, carillon.Credit{Queue: "p", N: 1}})
	a.change([]carillon.Credit{{Queue: "q", N: -2}})
	want("withdrawn", sent{n, carillon.Credit{Queue: "q", N: -2}})
	a.returned(n, []carillon.Credit{{Queue: "q", N: 2}, {Queue: "unknown", N: 1}})
	if !slices.Equal(answers, []carillon.Credit{{Queue: "q", N: 2}}) {
		t.Errorf("answers %v", answers)
	}
	a.stop()
	a.freed("p")
	a.leave(n)
	want("stopped")
}

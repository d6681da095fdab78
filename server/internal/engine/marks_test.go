package engine

import (
	"maps"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

// TestMarksAreSweptInTheirTerm: a marker is removed markKept after its intent was found to be gone, and only
// if that was found in the same term.
func TestMarksAreSweptInTheirTerm(t *testing.T) {
	term := store.Term{Epoch: 2}
	s := newMarkSweep(term)
	due := func(now int64) (remove, ask []string) {
		marks := map[string]int{"gone": 1, "there": 2}
		remove = s.due(marks, now)
		return remove, slices.Sorted(maps.Keys(marks))
	}
	s.looking = true
	s.found([]goneMarks{{store.Term{Epoch: 1}, []string{"gone"}}}, 5)
	if remove, ask := due(5 + int64(markKept)); len(remove) != 0 || len(ask) != 2 || !s.looking {
		t.Errorf("found in another term: %v are removed, %v are asked about", remove, ask)
	}
	s.found([]goneMarks{{term, []string{"gone"}}}, 5)
	if s.looking {
		t.Error("still looking")
	}
	if remove, ask := due(4 + int64(markKept)); len(remove) != 0 || !slices.Equal(ask, []string{"there"}) {
		t.Errorf("too early: %v are removed, %v are asked about", remove, ask)
	}
	if remove, ask := due(5 + int64(markKept)); !slices.Equal(remove, []string{"gone"}) ||
		!slices.Equal(ask, []string{"there"}) {
		t.Errorf("%v are removed, %v are asked about", remove, ask)
	}
}

package cluster

import (
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

// fakeAssignee records what it is to own, and holds what a test says.
type fakeAssignee struct {
	calls [][]int
	holds []store.Holding
}

func (f *fakeAssignee) Assign(partitions []int)   { f.calls = append(f.calls, partitions) }
func (f *fakeAssignee) Holdings() []store.Holding { return f.holds }

// TestAssignmentTellsChangesOnly: the first share, even an empty one, each other share, and the end.
func TestAssignmentTellsChangesOnly(t *testing.T) {
	engine := &fakeAssignee{}
	a := assignment{engine: engine}
	for _, share := range [][]int{nil, nil, {1, 2}, {1, 2}, {2}} {
		a.set(share)
	}
	a.clear()
	if want := [][]int{nil, {1, 2}, {2}, nil}; !slices.EqualFunc(engine.calls, want, slices.Equal) {
		t.Errorf("told %v, want %v", engine.calls, want)
	}
}

// TestAssignmentIsCompleteOnce: from the moment at which all was held, whatever is lost later.
func TestAssignmentIsCompleteOnce(t *testing.T) {
	engine := &fakeAssignee{holds: []store.Holding{{Partition: 1}}}
	a := assignment{engine: engine}
	if a.set([]int{1, 2}); a.complete.Load() {
		t.Error("complete without partition 2")
	}
	engine.holds = append(engine.holds, store.Holding{Partition: 2})
	if a.set([]int{1, 2}); !a.complete.Load() {
		t.Error("not complete")
	}
	engine.holds = nil
	if a.set([]int{1, 2}); !a.complete.Load() {
		t.Error("not complete any more")
	}
	if lost := missing(a.share, a.held()); !slices.Equal(lost, []int{1, 2}) {
		t.Errorf("missing %v", lost)
	}
}

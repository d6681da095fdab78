package cluster

import (
	"errors"
	"slices"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

// fakeAssignee records what it is to own, and holds what a test says.
type fakeAssignee struct {
	calls [][]int
	holds []store.Holding
	ready error
}

func (f *fakeAssignee) Assign(partitions []int)   { f.calls = append(f.calls, partitions) }
func (f *fakeAssignee) Holdings() []store.Holding { return f.holds }
func (f *fakeAssignee) Ready() error              { return f.ready }

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

// TestAssignmentIsWholeOnce: from the moment at which all of a share was served, whatever is lost later.
func TestAssignmentIsWholeOnce(t *testing.T) {
	engine := &fakeAssignee{}
	a := assignment{engine: engine}
	if a.whole() {
		t.Error("whole without a share")
	}
	engine.holds, engine.ready = []store.Holding{{Partition: 1}, {Partition: 2}}, errors.New("partition 2 is loaded")
	if a.set([]int{1, 2}); a.whole() {
		t.Error("whole while partition 2 is loaded")
	}
	engine.ready = nil
	if !a.whole() {
		t.Error("not whole")
	}
	engine.holds, engine.ready = nil, errors.New("all is lost")
	if !a.whole() {
		t.Error("not whole any more")
	}
	if a.set([]int{1, 2}); !a.whole() {
		t.Error("not whole any more")
	}
	if lost := missing(a.share, a.held()); !slices.Equal(lost, []int{1, 2}) {
		t.Errorf("missing %v", lost)
	}
}

// TestAssignmentIsWholeUnasked: that it was whole counts although nobody asked before the share changed.
func TestAssignmentIsWholeUnasked(t *testing.T) {
	engine := &fakeAssignee{}
	a := assignment{engine: engine}
	a.set([]int{1})
	a.set([]int{1, 2})
	engine.ready = errors.New("partition 2 is loaded")
	if !a.whole() {
		t.Error("not whole")
	}
}

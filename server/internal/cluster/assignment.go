package cluster

import (
	"slices"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
)

// assignment is what this node's engine is to own. Share is guarded by the turn.
type assignment struct {
	engine   assignee
	share    []int
	known    atomic.Bool // there has been a share
	complete atomic.Bool // the engine was found to serve all of its share
}

// assignee is the part of [Local] that owns partitions.
type assignee interface {
	// Assign sets which partitions the node is to own from now on. It does not wait.
	Assign(partitions []int)
	// Holdings returns the partitions that it holds, also those that it is still loading.
	Holdings() []store.Holding
	// Ready returns an error that names a partition which it is to own and does not serve; nil if there is none.
	Ready() error
}

// set tells the engine what it is to own, if that has changed. It returns how much that was before.
func (a *assignment) set(share []int) (before int, changed bool) {
	a.whole() // of the share until now, if nobody has asked
	before = len(a.share)
	if changed = !a.known.Load() || !slices.Equal(share, a.share); changed {
		a.share = share
		a.engine.Assign(share)
		a.known.Store(true)
	}
	return before, changed
}

// whole reports whether the engine serves all of its share, or was found to do so before. It may be called at
// any time.
func (a *assignment) whole() bool {
	if !a.complete.Load() && a.known.Load() && a.engine.Ready() == nil {
		a.complete.Store(true)
	}
	return a.complete.Load()
}

// clear tells the engine that it is to own nothing any more.
func (a *assignment) clear() {
	a.share = nil
	a.engine.Assign(nil)
}

// held returns the partitions that the engine holds. It may be called at any time.
func (a *assignment) held() map[int]bool {
	held := map[int]bool{}
	for _, h := range a.engine.Holdings() {
		held[h.Partition] = true
	}
	return held
}

// missing returns the partitions of a share that are not held.
func missing(share []int, held map[int]bool) []int {
	return slices.DeleteFunc(slices.Clone(share), func(p int) bool { return held[p] })
}

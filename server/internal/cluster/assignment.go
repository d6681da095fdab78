package cluster

import (
	"slices"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
)

// assignment is what this node's engine is to own. Its fields are guarded by the turn, except complete.
type assignment struct {
	engine   assignee
	share    []int
	known    bool        // there has been a share
	complete atomic.Bool // the engine has held all of its share at one time
}

// assignee is the part of [Local] that owns partitions.
type assignee interface {
	Assign(partitions []int)
	Holdings() []store.Holding
}

// set tells the engine what it is to own, if that has changed. It returns how much that was before.
func (a *assignment) set(share []int) (before int, changed bool) {
	before = len(a.share)
	if changed = !a.known || !slices.Equal(share, a.share); changed {
		a.share, a.known = share, true
		a.engine.Assign(share)
	}
	if !a.complete.Load() && len(missing(a.share, a.held())) == 0 {
		a.complete.Store(true)
	}
	return before, changed
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

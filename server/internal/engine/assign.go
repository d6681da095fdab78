package engine

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Assign sets which partitions this node is to own from now on. It does not wait. Partitions that the node
// lacks are claimed, repeatedly while another node holds them; those that it should not have are handed over
// (docs/decisions/0029).
func (e *Engine) Assign(parts []int) {
	e.assigning.Lock()
	defer e.assigning.Unlock()
	for _, p := range e.parts {
		if want := slices.Contains(parts, p.number); p.own.wanted.Swap(want) != want {
			p.box.ring()
			p.lane.ring()
		}
	}
}

// Holdings returns the partitions that this node holds under a term, including those that it is still
// loading.
func (e *Engine) Holdings() []store.Holding {
	var held []store.Holding
	for _, p := range e.parts {
		if term, ok := p.lease.held(); ok {
			held = append(held, store.Holding{Partition: p.number, Term: term})
		}
	}
	return held
}

// Serving returns the partitions that this node holds and has begun to serve: from here on all that is
// written to them goes the [Way] of their lane.
func (e *Engine) Serving() []store.Holding {
	var serving []store.Holding
	for _, p := range e.parts {
		// In this order: a term that is asked for here and has begun is not one that is loaded still.
		if term, ok := p.lease.held(); ok && p.own.holds() {
			serving = append(serving, store.Holding{Partition: p.number, Term: term})
		}
	}
	return serving
}

// Ready returns an error that names a partition which this node is to own and does not own; nil if there is
// none.
func (e *Engine) Ready() error {
	for _, p := range e.parts {
		if p.own.wanted.Load() && !p.own.holds() {
			return carillon.Errorf(carillon.Unavailable, "", "partition %d is not owned", p.number)
		}
	}
	return nil
}

// whole reports whether the node owns all partitions that it is to own.
func (e *Engine) whole() bool { return e.Ready() == nil }

// notOwner returns the error for a request to a partition that this node does not own.
func notOwner(number int) *carillon.Error {
	return carillon.Errorf(carillon.Unavailable, "", "partition %d: %w", number, message.ErrNotOwner)
}

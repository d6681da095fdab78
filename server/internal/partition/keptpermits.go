package partition

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// These are the ways in which runs that wait return the permits that they have kept; see [Permits].

// forgo returns at once the permits of a run that has not begun.
func (p *Permits) forgo(e *entry) {
	for _, l := range e.permits.limits() {
		p.limiter.Free(l)
	}
	e.permits = nil
}

// ForgoKept has the runs of a namespace that wait return the permits that they have kept, because limits have
// changed; "" means all namespaces. A kept permit would otherwise let a run begin beyond a limit that was
// lowered meanwhile. They stay in their lines.
func (p *Permits) ForgoKept(namespace string) {
	for _, l := range p.ordered() {
		if namespace == "" || l.key.Queue.Namespace == namespace {
			p.forgoAll(l)
		}
	}
}

// ForgoKeptOf has the runs that wait return what they have kept, if a permit of one of the limits is among
// that: fewer may be in force than are out, and those kept since the limits have changed count as well. They
// return all, since a permit is kept only by a run that has those before it in the order.
func (p *Permits) ForgoKeptOf(limits []delivery.Limit) {
	if len(limits) == 0 {
		return
	}
	for _, l := range p.ordered() {
		for _, w := range l.list {
			if slices.ContainsFunc(limits, w.permits.has) {
				p.forgo(w.entry)
			}
		}
	}
}

// ForgoKeptIn is ForgoKept for the runs of a queue that has no consumers.
func (p *Permits) ForgoKeptIn(q delivery.Queue) {
	for _, l := range p.ordered() {
		if l.key.Queue == q {
			p.forgoAll(l)
		}
	}
}

// forgoAll has the runs of a line return what they have kept.
func (p *Permits) forgoAll(l *line) {
	for _, w := range l.list {
		p.forgo(w.entry)
	}
}

// Kept returns the queues in which runs wait that have kept permits: nearly always none.
func (p *Permits) Kept() (out []delivery.Queue) {
	for _, l := range p.lines {
		if slices.ContainsFunc(l.list, func(w waiting) bool { return w.permits != nil }) {
			out = append(out, l.key.Queue)
		}
	}
	slices.SortFunc(out, delivery.Queue.Compare)
	return slices.Compact(out)
}

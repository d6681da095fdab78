package partition

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Tally is how a limit that sidecars name stands in one partition, for metrics.
type Tally struct {
	delivery.Limit
	InForce   int    // attempts that hold a permit
	Waiting   int    // due runs in memory that wait for one
	Throttled uint64 // runs that have had to wait since it was last told
}

// tallies are those of the limits that sidecars name, which are few. Concurrency keys are not counted: there
// may be any number of them.
type tallies map[delivery.Limit]*Tally

// of finds or makes the tally of a limit; nil if that is not counted.
func (ts tallies) of(l delivery.Limit) *Tally {
	if !l.Named() {
		return nil
	}
	t := ts[l]
	if t == nil {
		t = &Tally{Limit: l}
		ts[l] = t
	}
	return t
}

// InLine is what waits for permits in one queue of a partition, in memory.
type InLine struct {
	Queue  delivery.Queue
	N      int
	Oldest int64 // due time of the oldest of them, UTC ns
}

// InLine returns what waits for permits, ordered by queue. Runs that have come out of their lines to take a
// permit wait in their queue, and are not counted.
func (p *Permits) InLine() []InLine {
	by := map[delivery.Queue]InLine{}
	for key, l := range p.lines {
		sum := by[key.Queue]
		for _, w := range l.list {
			if due := w.state.Run.Due; sum.N == 0 || due < sum.Oldest {
				sum.Oldest = due
			}
			sum.N++
		}
		if sum.Queue = key.Queue; sum.N > 0 {
			by[key.Queue] = sum
		}
	}
	return slices.SortedFunc(maps.Values(by), func(a, b InLine) int { return a.Queue.Compare(b.Queue) })
}

// RateLine is how many runs wait for a permit of a rate in one partition, in memory.
type RateLine struct {
	delivery.Limit
	N int
}

// RateLines returns what waits for permits of rates, ordered by limit, as [Permits.InLine] counts it.
func (p *Permits) RateLines() []RateLine {
	by := map[delivery.Limit]int{}
	for key, l := range p.lines {
		if key.IsRate() && len(l.list) > 0 {
			by[key.Limit] += len(l.list)
		}
	}
	out := make([]RateLine, 0, len(by))
	for l, n := range by {
		out = append(out, RateLine{l, n})
	}
	slices.SortFunc(out, func(a, b RateLine) int { return a.Limit.Compare(b.Limit) })
	return out
}

// begin counts an attempt that holds a permit.
func (ts tallies) begin(l delivery.Limit) {
	if t := ts.of(l); t != nil {
		t.InForce++
	}
}

// end counts the end of such an attempt.
func (ts tallies) end(l delivery.Limit) {
	if t := ts.of(l); t != nil {
		t.InForce--
	}
}

// countThrottled counts a run that found no permit, unless it has come back from that very line.
func (p *Permits) countThrottled(e *entry, key delivery.Line) {
	if e.line != nil && e.line.key == key {
		return
	}
	if t := p.tallies.of(key.Limit); t != nil {
		t.Throttled++
	}
}

// Tallies tells how the limits stand that sidecars name, ordered by limit. Those that named does not know any
// more are left out, and forgotten once no attempt is under them.
func (p *Permits) Tallies(named func(delivery.Limit) bool) []Tally {
	if len(p.tallies) == 0 {
		return nil
	}
	for _, t := range p.tallies {
		t.Waiting = 0
	}
	for key, l := range p.lines {
		if t := p.tallies.of(key.Limit); t != nil {
			t.Waiting += len(l.list) + l.tries
		}
	}
	var out []Tally
	for l, t := range p.tallies {
		switch {
		case named(l):
			out = append(out, *t)
			t.Throttled = 0
		case t.InForce == 0:
			delete(p.tallies, l)
		}
	}
	slices.SortFunc(out, func(a, b Tally) int { return a.Limit.Compare(b.Limit) })
	return out
}

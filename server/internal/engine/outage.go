package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/health"
)

// A fault of the whole store ends most terms of a node at about the same time: each partition meets it with
// its next write or its next lease renewal. Such an outage says nothing about a single partition or node. So
// the search for partitions that fail by themselves counts only from the end of the last outage. Otherwise a
// store that fails over twice within a few seconds would look like partitions that fail all that time.

// Failing returns, by partition, what the node is to own and fails to claim, load or write.
func (e *Engine) Failing() (out []health.Failure) {
	now := e.elapsed()
	for _, p := range e.parts {
		if f, fails := p.health.Failure(p.number, now, p.own.holds()); fails && p.own.wanted.Load() {
			out = append(out, f)
		}
	}
	return out
}

// Outage returns how long ago the node last lost most of its terms together; ever is false if it never has.
func (e *Engine) Outage() (ago time.Duration, ever bool) {
	at := e.reach.lost.Load()
	return time.Duration(e.elapsed() - at), at != 0
}

// lostTerm records that a partition has lost its term, which may be part of an outage.
func (p *partitionRunner) lostTerm() {
	e := p.e
	p.health.Lost(e.elapsed())
	var all []tenancy
	for _, p := range e.parts {
		if t := (tenancy{p.own.holds(), p.health.LostAt()}); p.own.wanted.Load() && (t.serves || t.lost != 0) {
			all = append(all, t)
		}
	}
	at := lastOutage(all, int64(e.cfg.LeaseTTL/renewParts))
	last := &e.reach.lost
	for was := last.Load(); at > was && !last.CompareAndSwap(was, at); was = last.Load() {
	}
}

// tenancy is the input for finding outages: whether a partition has a term now, and when it last lost one.
type tenancy struct {
	serves bool
	lost   int64 // by Engine.elapsed; 0 = never
}

// lastOutage returns the latest loss of a term such that, in the time within before it, more terms were lost
// than stayed in force, and at least two; 0 if there is none.
func lastOutage(all []tenancy, within int64) int64 {
	slices.SortFunc(all, func(a, b tenancy) int { return cmp.Compare(b.lost, a.lost) })
	serving := 0
	for _, t := range all {
		serving += count(t.serves)
	}
	// Of the terms from i to next, which were lost together: how many partitions serve again.
	again, next := 0, 0
	for i, last := range all {
		for ; next < len(all) && all[next].lost != 0 && last.lost-all[next].lost <= within; next++ {
			again += count(all[next].serves)
		}
		if lost := next - i; lost >= 2 && lost > serving-again {
			return last.lost
		}
		if next > i {
			again -= count(last.serves)
		}
	}
	return 0
}

// count returns 1 for true.
func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Lapses is a cluster whose store goes back in time once: an asynchronous standby was promoted that lacks the
// last commits. Clients are busy just then, with batches most of all, and nothing else goes wrong.
var Lapses = Profile{Name: "lapse", Busy: 40 * time.Second, Calm: 45 * time.Second, Ops: 80,
	Storms: 1, HTTP: true, Crons: true, Cluster: true, Faults: []FaultKind{Lapse},
	Work: 700 * time.Millisecond, Habits: true, Kinds: slices.Concat(usual, []Weight{{checker.BatchPut, 15}})}

const (
	// longestLapse is the most that is lost. It is shorter than a lease minus the time between renewals:
	// nobody else finds a partition free before its owner has learnt that its term is over.
	longestLapse = 1200 * time.Millisecond
	// settling is how long before the store goes back the clients' last single operations begin, so that
	// batches are on their way then.
	settling = 60 * time.Millisecond
)

// lapse draws when the store goes back, and by how much, and has clients do a third of their operations in
// the stretch that is lost.
func (g *generator) lapse() {
	p := g.plan
	f := Fault{Kind: Lapse, At: g.between(8*time.Second, 28*time.Second),
		For: g.between(50*time.Millisecond, longestLapse)}
	p.Faults = append(p.Faults, f)
	if g.oneIn(2) { // a node moves its partitions about then
		p.Faults = append(p.Faults, Fault{Kind: Departs, At: f.At - g.between(-f.For, 3*time.Second),
			For: g.between(500*time.Millisecond, 4*time.Second), Node: g.r.IntN(p.Nodes)})
	}
	back := f.At + f.For
	for i := range p.Ops {
		if g.oneIn(3) {
			p.Ops[i].At = back - settling - g.between(0, f.For+300*time.Millisecond)
		}
	}
	for client := range 4 {
		o := Op{At: back - g.between(0, 15*time.Millisecond), Client: client, Kind: checker.BatchPut,
			Namespace: "default"}
		if client == 3 {
			o.Namespace = "tenant"
		}
		g.fill(&o)
		p.Ops = append(p.Ops, o)
	}
	slices.SortStableFunc(p.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
}

// lapse has the store go back to what it held at the beginning of the fault. The audit goes back with it. The
// fault is over when every owner of before has asked for its lease once more.
func (w *world) lapse(f Fault, actor int) {
	fault := checker.Fault{Kind: string(f.Kind), Minor: true, From: time.Now()}
	past, runs := w.memory.Past(), w.log.past()
	pauseUntil(actor, w.at(f.At+f.For))
	fault.Back = time.Now()
	w.memory.Revert(past)
	w.log.revert(runs)
	pause(actor, w.plan.LeaseTTL/3+unaware)
	fault.To = time.Now()
	w.rec.Fault(fault)
}

// unaware is how much longer than the time between two renewals an owner may go on after the store went back:
// a renewal on its way.
const unaware = 100 * time.Millisecond

// past is a copy of the states of runs, for revert.
func (l *auditLog) past() []map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []map[string]string
	for _, runs := range l.runs {
		out = append(out, maps.Clone(runs))
	}
	return out
}

// revert sets the states of runs back.
func (l *auditLog) revert(past []map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = past
}

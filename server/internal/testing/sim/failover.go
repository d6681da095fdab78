package sim

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Failovers is a cluster whose store fails over again and again: for a moment no write is known to have been
// made, and then all terms are over, and nothing is lost. The nodes are members throughout: their heartbeats
// fall before and after.
var Failovers = Profile{Name: "failovers", Busy: 40 * time.Second, Calm: 45 * time.Second, Ops: 80, Storms: 1,
	Crons: true, HTTP: true,
	Kinds: usual, Cluster: true, Faults: []FaultKind{Failover}, Work: 700 * time.Millisecond, Habits: true}

// readyWithin is how long after the last failover every node is ready again.
const readyWithin = 2 * clusterTTL

// failovers draws when the store fails over: at once again, or when all goes well.
func (g *generator) failovers() {
	p := g.plan
	at := g.between(4*time.Second, 10*time.Second)
	for range 3 + g.r.IntN(10) {
		f := Fault{Kind: Failover, At: at, For: g.between(10*time.Millisecond, 500*time.Millisecond)}
		at += f.For + pick(g.r, g.between(100*time.Millisecond, 2*time.Second),
			g.between(100*time.Millisecond, 6*time.Second))
		if at < p.Busy {
			p.Faults = append(p.Faults, f)
		}
	}
}

// failover has the store fail over, and after the last time waits until every node is ready.
func (w *world) failover(f Fault, actor int) {
	healed := w.rec.Break(checker.Fault{Kind: string(f.Kind)})
	vague := Fault{Kind: LostAcks, At: f.At, For: f.For, Share: 1}
	for _, n := range w.nodes {
		n.faults.add(vague)
	}
	pauseUntil(actor, w.at(f.At+f.For))
	w.memory.Revert(w.memory.Past())
	for _, n := range w.nodes {
		n.faults.remove(vague)
	}
	// until every owner of before has asked for its lease, has said that it lives, and has claimed again
	pause(actor, w.plan.LeaseTTL*2/3)
	healed()
	for i := range w.plan.Faults {
		if w.plan.Faults[i].At > f.At {
			return
		}
	}
	pause(actor, readyWithin)
	for _, n := range w.nodes {
		if err := n.ready(); err != nil {
			w.fail(fmt.Errorf("%s is not ready %v after the last failover of the store: %w", n.name(),
				readyWithin, err))
		}
	}
}

// ready reports whether the node would take its share of the load.
func (n *node) ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up.member.Ready()
}

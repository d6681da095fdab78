package sim

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Away is a cluster whose store no node reaches, again and again, while critical runs leave nevertheless. The
// leases are long enough that many do. What the checker asks of any attempt holds for these, too: they leave
// under a lease that lasts, and if the store has not heard of them they are in doubt.
var Away = Profile{Name: "away", Busy: 40 * time.Second, Calm: 60 * time.Second, Ops: 240, Storms: 4,
	HTTP: true, Crons: true, Kinds: putting, Cluster: true, Habits: true, FireCritical: true,
	Faults: []FaultKind{StoreAway, StoreAway, StoreAway, StoreAway, CutStore, Kill, Halt, Departs,
		LostAcks, Clock}}

// putting are the operations of clients where it is what falls due that is of interest.
var putting = append(slices.Clone(usual), Weight{checker.Put, 120})

// storeTTL draws how long the leases last if the store goes away: up to as long as it may be away.
func (g *generator) storeTTL() time.Duration {
	if !g.FireCritical {
		return clusterTTL
	}
	return pick(g.r, clusterTTL, 2*clusterTTL, 3*clusterTTL)
}

// answersWithin is how long after the store is back all that was asked of it before has failed, and the
// partitions have been claimed again: a request hangs for 2 s at most.
const answersWithin = 3 * time.Second

// away keeps the store from all nodes. It is over when they have found that it is back.
func (w *world) away(f Fault, actor int) {
	defer w.rec.Break(checker.Fault{Kind: string(f.Kind)})()
	cut := Fault{Kind: CutStore, At: f.At, For: f.For}
	for _, n := range w.nodes {
		n.faults.add(cut)
	}
	pauseUntil(actor, w.at(f.At+f.For))
	for _, n := range w.nodes {
		n.faults.remove(cut)
	}
	pause(actor, answersWithin)
}

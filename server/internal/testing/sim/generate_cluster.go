package sim

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// The profiles of a cluster.
var (
	// Cluster is everything that can befall several nodes.
	Cluster = Profile{Name: "cluster", Busy: 40 * time.Second, Calm: 45 * time.Second, Ops: 80, Storms: 6,
		Habits: true, HTTP: true, Crons: true,
		Kinds: usual, Cluster: true, Faults: []FaultKind{Cut, CutStore, CutStore, Halt, Halt, Kill, Kill,
			Kill, Departs, Departs, Clock, SlowStore,
			StoreRefuses, LostAcks, ReadsFail, LeasesFail, StreamCut, EndpointDown, EndpointCut}}
	// Moves is a cluster whose nodes come and leave in order, and in which nothing goes wrong: every run is
	// attempted once.
	Moves = Profile{Name: "moves", Busy: 40 * time.Second, Calm: 25 * time.Second, Ops: 60, Storms: 4,
		Crons: true, HTTP: true, Kinds: usual,
		Cluster: true, Faults: []FaultKind{Departs}}
	// Bars is a cluster of which a node lives, and cannot claim or commit: the others do all the work.
	Bars = Profile{Name: "bars", Busy: 40 * time.Second, Calm: 45 * time.Second, Ops: 60, Storms: 2,
		Crons: true, HTTP: true, Kinds: usual,
		Cluster: true, Faults: []FaultKind{Barred}}
	// Ends is a cluster whose nodes are all told to end at about the same time.
	Ends = Profile{Name: "ends", Busy: 40 * time.Second, Calm: 25 * time.Second, Ops: 60, Storms: 2,
		HTTP: true, Kinds: usual, Cluster: true, Faults: []FaultKind{AllLeave}, Work: 1500 * time.Millisecond}
	// Permits is Moves with jobs half of which share a limit that is raised and lowered all the time: they
	// wait for each other in partitions of several nodes, and the partition that hands the tokens out moves
	// as the others do.
	Permits = Profile{Name: "tokens", Busy: 40 * time.Second, Calm: 40 * time.Second, Ops: 80, Storms: 4,
		HTTP: true, Kinds: limiting,
		Cluster: true, Faults: []FaultKind{Departs}, Limited: []int{0, 1, 1, 2, 2, 3, 5},
		Work: 1500 * time.Millisecond}
	// Torn is Tokens with everything that can befall the nodes.
	Torn = Profile{Name: "torn", Busy: 40 * time.Second, Calm: 45 * time.Second, Ops: 80, Storms: 6,
		HTTP: true, Kinds: limiting, Cluster: true,
		Faults: Cluster.Faults, Habits: true, Limited: Permits.Limited, Work: Permits.Work}
)

// limiting are the operations of clients where it is limits that are of interest.
var limiting = []Weight{{checker.Put, 40}, {checker.Patch, 4}, {checker.Delete, 4}, {checker.Pause, 3},
	{checker.Resume, 6}, {checker.Trigger, 25},
	{checker.Cancel, 5}, {checker.Get, 2}, {checker.Skip, 2}, {checker.BatchPut, 2}, {checker.PutNamespace, 20}}

// clusterTTL is how long leases of partitions and members last: as in the product.
const clusterTTL = 4 * time.Second

// cluster draws the nodes.
func (g *generator) cluster() {
	p := g.plan
	p.Nodes, p.Partitions, p.LeaseTTL = 3+g.r.IntN(3), 8, g.storeTTL()
	p.Lanes = []int{1, 2, p.Partitions}[p.Seed%3]
}

// clusterFaults draws what befalls the nodes. Fewer than half of them are out at a time, so that others can
// go on for them.
func (g *generator) clusterFaults() {
	p := g.plan
	out := &outages{nodes: make([][]outage, p.Nodes)}
	if g.Faults[0] == Barred || g.Faults[0] == AllLeave { // nothing else is to go wrong
		g.oneFault()
		return
	}
	switch g.Faults[0] {
	case Lapse:
		g.lapse()
		return
	case Failover:
		g.failovers()
		return
	}
	switch g.r.IntN(6) {
	case 0: // a rolling restart
		at := g.between(3*time.Second, 8*time.Second)
		for n := range p.Nodes {
			f := Fault{Kind: Departs, At: at, For: g.between(500*time.Millisecond, 4*time.Second), Node: n}
			at += f.For + g.between(500*time.Millisecond, 4*time.Second)
			p.Faults = append(p.Faults, f)
			out.add(f)
		}
	case 1: // it grows
		for n := 2; n < p.Nodes; n++ {
			f := Fault{Kind: ComesLate, For: g.between(5*time.Second, 30*time.Second), Node: n}
			p.Faults = append(p.Faults, f)
			out.add(f)
		}
	case 2: // it shrinks
		f := Fault{Kind: Departs, At: g.between(5*time.Second, 30*time.Second), For: time.Hour,
			Node: g.r.IntN(p.Nodes)}
		p.Faults = append(p.Faults, f)
		out.add(f)
	}
	for range 1 + g.r.IntN(2*g.Storms) {
		if f, ok := g.clusterFault(out); ok {
			p.Faults = append(p.Faults, f)
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(a.At - b.At) })
}

// oneFault draws what is alone in its profile.
func (g *generator) oneFault() {
	p := g.plan
	f := Fault{Kind: g.Faults[0], At: g.between(6*time.Second, 12*time.Second), Node: g.r.IntN(p.Nodes)}
	switch f.Kind {
	case Barred:
		f.For, f.Share = g.between(12*time.Second, 20*time.Second), g.r.Float64()
	case AllLeave:
		f.For = g.between(8*time.Second, 14*time.Second)
		f.Delay = pick(g.r, time.Microsecond, 2*time.Millisecond, 30*time.Millisecond, 500*time.Millisecond)
	}
	p.Faults = append(p.Faults, f)
}

// clusterFault draws one fault; ok is false if it does not fit in with the others.
func (g *generator) clusterFault(out *outages) (f Fault, ok bool) {
	p := g.plan
	f = Fault{Kind: pick(g.r, g.Faults...), At: g.between(time.Second, p.Busy-10*time.Second),
		Node: g.r.IntN(p.Nodes)}
	f.For = g.between(10*time.Millisecond, 5*time.Second)
	switch f.Kind {
	case SlowStore:
		f.Delay = g.between(20*time.Millisecond, 800*time.Millisecond)
	case StoreRefuses, LostAcks, ReadsFail:
		f.Share = 0.1 + 0.6*g.r.Float64()
	case LeasesFail:
		f.Share = 0.3 + 0.7*g.r.Float64()
	case Clock:
		f.Delay = g.between(-3*time.Second, 3*time.Second)
		return f, out.fits(f, out.clocks) && out.clock(f)
	case StreamCut:
		f.Worker, f.For = g.consumer(), 0
	case SidecarHangs:
		f.Worker, f.For = g.consumer(), min(g.between(2*time.Second, 36*time.Second), p.Busy-f.At)
		return f, !slices.ContainsFunc(p.Faults, f.overlaps)
	case QueuePaused:
		g.halt(&f)
		return f, !slices.ContainsFunc(p.Faults, f.overlaps)
	case EndpointDown, EndpointCut:
		f.Worker = pick(g.r, p.Endpoints...)
	case StoreAway:
		f.For = min(g.between(time.Second, 14*time.Second), p.Busy-f.At)
	case Cut:
		f.Side = g.r.Perm(p.Nodes)[:1+g.r.IntN(p.Nodes/2)]
		f.For = g.between(time.Second, 10*time.Second)
	case Kill, Halt, CutStore, Departs:
		f.For = g.between(100*time.Millisecond, 10*time.Second)
		return f, out.room(f) && out.add(f)
	}
	return f, true
}

// outages are when nodes are out of the cluster.
type outages struct {
	nodes  [][]outage
	clocks []outage
}

type outage struct{ from, to time.Duration }

func (o *outages) fits(f Fault, in []outage) bool {
	return !slices.ContainsFunc(in, func(x outage) bool {
		return x.from < f.At+f.For+recovers && f.At < x.to+recovers
	})
}

// recovers is how long after an outage the node, or another, counts as not yet there.
const recovers = 2 * time.Second

// room reports whether the node is there, and enough of the others while it is not.
func (o *outages) room(f Fault) bool {
	others := 0
	for _, in := range o.nodes {
		if !o.fits(f, in) {
			others++
		}
	}
	return o.fits(f, o.nodes[f.Node]) && others < (len(o.nodes)-1)/2
}

func (o *outages) add(f Fault) bool {
	o.nodes[f.Node] = append(o.nodes[f.Node], outage{f.At, f.At + f.For})
	return true
}

func (o *outages) clock(f Fault) bool {
	o.clocks = append(o.clocks, outage{f.At, f.At + f.For})
	return true
}

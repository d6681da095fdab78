package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// cluster reports whether a fault makes sense only among several nodes.
func (f *Fault) cluster() bool {
	return slices.Contains([]FaultKind{Cut, CutStore, Halt, Departs, ComesLate, EndpointCut, Barred, AllLeave,
		Lapse, Failover, StoreAway}, f.Kind)
}

// late reports whether a node is not there in the beginning.
func (p *Plan) late(node int) bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == ComesLate && f.Node == node })
}

// inflictCluster does one fault of a cluster and takes it back.
func (w *world) inflictCluster(ctx context.Context, n *node, f Fault, actor int) {
	fault := checker.Fault{Kind: string(f.Kind), Targets: []string{n.name()}}
	until := func() { pauseUntil(actor, w.at(f.At+f.For)) }
	switch f.Kind {
	case Cut:
		fault.Targets = []string{checker.Network}
		defer w.rec.Break(fault)()
		w.cuts.add(f.Side)
		until()
		w.cuts.remove(f.Side)
	case CutStore:
		fault.Minor = true
		defer w.rec.Break(fault)()
		n.faults.add(f)
		until()
		n.faults.remove(f)
	case Halt:
		fault.Minor = true
		defer w.rec.Break(fault)()
		open := n.gate.close()
		until()
		open()
	case Barred:
		fault.Minor = true
		defer w.rec.Break(fault)()
		if !n.kill(ctx) {
			return
		}
		n.faults.add(f)
		w.begin(ctx, n, actor)
		until()
		n.faults.remove(f)
	case AllLeave:
		fault.Targets = nil
		defer w.rec.Break(fault)()
		w.restart(ctx, f, actor)
	case Lapse:
		w.lapse(f, actor)
	case Failover:
		w.failover(f, actor)
	case StoreAway:
		w.away(f, actor)
	case EndpointCut:
		fault.Targets = []string{f.Worker}
		defer w.rec.Break(fault)()
		w.net.block(from(n.number, f.Worker), true)
		until()
		w.net.block(from(n.number, f.Worker), false)
	case Departs, ComesLate:
		fault.Orderly = true
		defer w.rec.Break(fault)()
		if f.Kind == Departs {
			if was, _ := n.depart(ctx, actor); !was {
				return // whoever killed it will start it again
			}
		}
		round(actor)
		if f.At+f.For >= w.plan.Busy {
			return // it is not to come back
		}
		until()
		w.begin(ctx, n, actor)
	}
}

// restart has all nodes leave at about the same time, and come back.
func (w *world) restart(ctx context.Context, f Fault, actor int) {
	var all sync.WaitGroup
	for i, n := range w.nodes {
		all.Go(func() {
			pause(actor+i, between(w.chance.about("told", uint64(i), uint64(f.At)), 0, f.Delay))
			if _, late := n.depart(ctx, actor+i); late != nil {
				w.fail(fmt.Errorf("%s ended while its consumers had runs, or their results were not heard: %w", n.name(),
					late))
			}
		})
	}
	all.Wait()
	round(actor)
	pauseUntil(actor, w.at(f.At+f.For))
	for i, n := range w.nodes {
		all.Go(func() { w.begin(ctx, n, actor+i) })
	}
	all.Wait()
}

// round lets time pass until an actor's moment after the next whole millisecond. How often a node that leaves
// has asked its store depends on the order of its goroutines. Where that is of no interest, what follows must
// not depend on it.
func round(actor int) { pauseUntil(actor, time.Now().Truncate(time.Millisecond).Add(time.Millisecond)) }

// begin starts a node again and again until it runs.
func (w *world) begin(ctx context.Context, n *node, actor int) {
	for n.start(ctx) != nil { // the store fails too, or has not forgotten the life before
		pause(actor, 200*time.Millisecond)
	}
}

// cuts are the partitions of the network between nodes.
type cuts struct {
	mu    sync.Mutex
	sides [][]int
}

func (c *cuts) add(side []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sides = append(c.sides, side)
}

func (c *cuts) remove(side []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.sides, func(s []int) bool { return slices.Equal(s, side) }); i >= 0 {
		c.sides = slices.Delete(c.sides, i, i+1)
	}
}

// between reports whether two nodes do not reach each other.
func (c *cuts) between(a, b int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.sides, func(s []int) bool {
		return slices.Contains(s, a) != slices.Contains(s, b)
	})
}

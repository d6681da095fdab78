package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Limits that Dapr's sidecars name are known to the node that they are connected to. It tells all others,
// each time its whole table: at a change, to a node that joins, and every limitsEvery, since a node may have
// forgotten it that had taken this one for dead. A node that was not reached is told again after limitsAgain.
const (
	limitsEvery  = 5 * time.Second
	limitsAgain  = 500 * time.Millisecond
	limitsWithin = 2 * time.Second // how long the other nodes may take
)

// limitsTeller tells the other nodes which limits sidecars of this one have named. Its goroutine begins with
// the first: most clusters have no sidecars.
type limitsTeller struct {
	changed chan struct{} // capacity 1; full when the others are to be told at once

	// Of its goroutine alone: the version that each process has last taken.
	known map[message.Process]uint64
}

func newLimitsTeller() *limitsTeller {
	return &limitsTeller{changed: make(chan struct{}, 1), known: map[message.Process]uint64{}}
}

// ring has the others told at once.
func (l *limitsTeller) ring() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// welcome has the others told if there are nodes that were not there before.
func (l *limitsTeller) welcome(before, after []store.Member) {
	if newcomers(before, after) {
		l.ring()
	}
}

// run tells the others until ctx ends. tell returns whether all have been reached, and whether it need not be
// called again before the next change.
func (l *limitsTeller) run(ctx context.Context, tell func(ctx context.Context) (reached, over bool)) {
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-again.C:
		}
		switch reached, over := tell(ctx); {
		case !reached:
			again.Reset(limitsAgain)
		case over:
			again.Stop()
		default:
			again.Reset(limitsEvery)
		}
	}
}

// AnnounceLimits tells all other nodes which limits sidecars of this node have named. It does not wait. It is
// the AnnounceLimits of [engine.Config].
func (n *Node) AnnounceLimits() { n.limits.ring() }

// tellLimits tells the other nodes which limits sidecars of this node have named. Once there are none, those
// need not be told that know it.
func (n *Node) tellLimits(ctx context.Context) (reached, over bool) {
	ctx, cancel := context.WithTimeout(ctx, limitsWithin)
	defer cancel()
	limits, version := n.local.OwnLimits()
	table := &message.LimitTable{Node: n.id, Nonce: n.cfg.Member.Nonce, Version: version, Limits: limits}
	var to []store.Member
	living := map[message.Process]uint64{}
	for _, m := range n.views.load().members {
		p := message.Process{Node: m.ID, Nonce: m.Nonce}
		if known, told := n.limits.known[p]; told {
			living[p] = known
		}
		if m.ID != n.id && (len(limits) > 0 || version > 0 && living[p] != version) {
			to = append(to, m)
		}
	}
	n.limits.known = living
	var mu sync.Mutex
	took := map[message.Process]uint64{}
	n.peers.each(to, func(m store.Member, c Control) {
		err := c.HearLimits(ctx, table)
		if err != nil {
			n.log.Debug("a node was not told which limits sidecars have named", "node", m.ID, "error", err)
		}
		if err == nil || errors.Is(err, ErrOlder) { // that one counts limits by itself
			mu.Lock()
			defer mu.Unlock()
			took[message.Process{Node: m.ID, Nonce: m.Nonce}] = version
		}
	})
	maps.Copy(n.limits.known, took)
	return len(took) == len(to), len(limits) == 0
}

// HearLimits implements [Control].
func (n *Node) HearLimits(_ context.Context, table *message.LimitTable) error {
	if table.Node != n.id {
		n.local.HearLimits(table)
	}
	return nil
}

// keepLimits forgets what nodes have told that are no members any more.
func (n *Node) keepLimits(v *view) {
	n.local.KeepLimits(func(p message.Process) bool {
		m, here := v.member(p.Node)
		return here && m.Nonce == p.Nonce
	})
}

// newcomers reports whether there are nodes that were not there before.
func newcomers(before, after []store.Member) bool {
	return slices.ContainsFunc(after, func(m store.Member) bool {
		return !slices.ContainsFunc(before, func(o store.Member) bool { return o.ID == m.ID && o.Nonce == m.Nonce })
	})
}

package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Limits that Dapr's sidecars name are known to the node that they are connected to. It tells all others,
// each time its whole table: at a change, to a node that joins, and every limitsEvery, since a node may have
// forgotten it that had taken this one for dead. A node that was not reached is told again after limitsAgain.
// Each is told on its own, so that one that does not answer keeps no other from hearing.
const (
	limitsEvery  = 5 * time.Second
	limitsAgain  = 500 * time.Millisecond
	limitsWithin = 2 * time.Second // how long another node may take
)

// limitsTeller tells the other nodes which limits sidecars of this one have named.
type limitsTeller struct {
	changed chan struct{}   // capacity 1; full when the others are to be told at once
	told    chan toldLimits // what has become of a call

	// Of its goroutine alone.
	table     *message.LimitTable // what is told
	listeners map[message.Process]*listener
	calls     sync.WaitGroup
}

// listener is another node as one that is told, at most once at a time.
type listener struct {
	version uint64    // that it has last taken
	at      time.Time // when it is told next
	busy    bool      // it is being told
	missed  bool      // the table has changed since that began
}

// toldLimits says what has become of a call.
type toldLimits struct {
	to      message.Process
	version uint64
	taken   bool
}

func newLimitsTeller() *limitsTeller {
	return &limitsTeller{changed: make(chan struct{}, 1), told: make(chan toldLimits),
		table: &message.LimitTable{}, listeners: map[message.Process]*listener{}}
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

// change takes the table that is told from now on, at once.
func (l *limitsTeller) change(table *message.LimitTable) {
	l.table = table
	for _, to := range l.listeners {
		to.at, to.missed = time.Now(), true
	}
}

// ended takes what has become of a call.
func (l *limitsTeller) ended(t toldLimits) {
	to := l.listeners[t.to]
	if to == nil {
		return // it is no member any more
	}
	to.busy = false
	again := limitsAgain
	if t.taken {
		to.version, again = t.version, limitsEvery
	}
	if !to.missed {
		to.at = time.Now().Add(again)
	}
}

// due returns the members to tell now, other than me, which count as being told from then on, and when the
// next one is to be told. Once nothing is named, those need not be told that know it.
func (l *limitsTeller) due(me string, members []store.Member) (now []store.Member, next time.Time) {
	living := map[message.Process]*listener{}
	for _, m := range members {
		p := message.Process{Node: m.ID, Nonce: m.Nonce}
		to := l.listeners[p]
		if to == nil {
			to = &listener{}
		}
		if living[p] = to; m.ID == me || to.busy ||
			len(l.table.Limits) == 0 && to.version == l.table.Version {
			continue
		}
		if !to.at.After(time.Now()) {
			to.busy, to.missed = true, false
			now = append(now, m)
		} else if next.IsZero() || to.at.Before(next) {
			next = to.at
		}
	}
	l.listeners = living
	return now, next
}

// AnnounceLimits tells all other nodes which limits sidecars of this node have named. It does not wait. It is
// the AnnounceLimits of [engine.Config].
func (n *Node) AnnounceLimits() { n.limits.ring() }

// tellLimits tells the other nodes which limits sidecars of this node have named, until ctx ends.
func (n *Node) tellLimits(ctx context.Context) {
	l := n.limits
	defer l.calls.Wait()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
			limits, version := n.local.OwnLimits()
			l.change(&message.LimitTable{Node: n.id, Nonce: n.cfg.Member.Nonce, Version: version, Limits: limits})
		case t := <-l.told:
			l.ended(t)
		case <-again.C:
		}
		to, next := l.due(n.id, n.views.load().members)
		for _, m := range to {
			table := l.table
			l.calls.Go(func() { n.tellLimitsTo(ctx, m, table) })
		}
		if again.Stop(); !next.IsZero() {
			again.Reset(time.Until(next))
		}
	}
}

// tellLimitsTo tells one node.
func (n *Node) tellLimitsTo(ctx context.Context, m store.Member, table *message.LimitTable) {
	within, cancel := context.WithTimeout(ctx, limitsWithin)
	defer cancel()
	c, done, err := n.peers.control(m)
	if err == nil {
		err = c.HearLimits(within, table)
		done()
	}
	if err != nil {
		n.log.Debug("a node was not told which limits sidecars have named", "node", m.ID, "error", err)
	}
	taken := err == nil || errors.Is(err, ErrOlder) // that one counts limits by itself
	select {
	case n.limits.told <- toldLimits{message.Process{Node: m.ID, Nonce: m.Nonce}, table.Version, taken}:
	case <-ctx.Done():
	}
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

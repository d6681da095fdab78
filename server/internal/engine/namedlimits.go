package engine

import (
	"sync"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
)

// Limits that Dapr's sidecars name come and go with their streams, so no store knows of them: each node keeps
// a table of its own ones and of what the others have told (docs/decisions/0060).
//
//	session ── NameLimits ──► table ── limitsChanged ──► partitions: who waits is told
//	                          │   ▲
//	          AnnounceLimits  ▼   │ HearLimits, KeepLimits
//	                        cluster ◄──► other nodes
//
// A partition needs to know that a key is limited, the home of the limit needs the number. A home that has
// not heard of it yet hands nothing out; who waits is served once it has.

// namedLimits is the table. Its methods may be called at any time.
type namedLimits struct {
	cfg     *Config
	elapsed func() int64           // the engine's monotonic clock
	changed func(namespace string) // limits of a namespace have changed

	mu        sync.RWMutex
	table     *permit.Named
	throttled map[delivery.Limit]uint64 // runs of this node's partitions that have had to wait
}

func newNamedLimits(cfg *Config, elapsed func() int64, changed func(namespace string)) *namedLimits {
	return &namedLimits{cfg: cfg, elapsed: elapsed, changed: changed, table: permit.NewNamed(),
		throttled: map[delivery.Limit]uint64{}}
}

// limit returns the number in force of a limit; limited is false if nobody has named it.
func (n *namedLimits) limit(l delivery.Limit) (most int, limited bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.table.Limit(l)
}

// limited reports whether a limit is in force.
func (n *namedLimits) limited(l delivery.Limit) bool {
	_, limited := n.limit(l)
	return limited
}

// NameLimits puts the limits of a stream in force, until it calls end. It must do so only after it has given
// back what it held.
func (n *namedLimits) NameLimits(limits []delivery.NamedLimit) (end func(), err error) {
	var s *permit.Stream
	err = n.change(func() (changed []string, err error) {
		s, changed, err = n.table.Name(n.cfg.now(), limits)
		return changed, err
	})
	if err != nil {
		return nil, err
	}
	return func() {
		_ = n.change(func() ([]string, error) { return n.table.End(s), nil }) // it has no error
	}, nil
}

// change changes the table, and passes on what that changes.
func (n *namedLimits) change(f func() (changed []string, err error)) error {
	n.mu.Lock()
	before := n.table.Version()
	changed, err := f()
	announce := n.table.Version() != before
	if len(changed) > 0 {
		for l := range n.throttled {
			if _, limited := n.table.Limit(l); !limited {
				delete(n.throttled, l) // when it is named again, it counts from 0
			}
		}
	}
	n.mu.Unlock()
	for _, namespace := range changed {
		n.changed(namespace)
	}
	if announce && n.cfg.AnnounceLimits != nil {
		n.cfg.AnnounceLimits()
	}
	return err
}

// OwnLimits returns the limits that sidecars of this node have named, and how often that has changed.
func (n *namedLimits) OwnLimits() (limits []delivery.NamedLimit, version uint64) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.table.Own()
}

// HearLimits takes the limits that sidecars of another node have named.
func (n *namedLimits) HearLimits(table *message.LimitTable) {
	_ = n.change(func() ([]string, error) { return n.table.Hear(n.elapsed(), table), nil }) // it has no error
}

// KeepLimits forgets what was heard of nodes that are no members any more.
func (n *namedLimits) KeepLimits(member func(message.Process) bool) {
	_ = n.change(func() ([]string, error) { return n.table.Keep(n.elapsed(), member), nil }) // it has no error
}

// showTallies publishes how the limits stand in the partition.
func (p *partitionRunner) showTallies() {
	tallies := p.m.Permits.Tallies(p.e.limited)
	if tallies == nil {
		p.figures.tallies.Store(nil)
		return
	}
	p.e.countThrottled(tallies)
	p.figures.tallies.Store(&tallies)
}

// countThrottled adds what partitions have counted since they last told.
func (n *namedLimits) countThrottled(tallies []partition.Tally) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range tallies {
		if _, limited := n.table.Limit(t.Limit); limited {
			n.throttled[t.Limit] += t.Throttled
		}
	}
}

// LimitTallies returns how the limits in force stand that sidecars have named, in the partitions of this
// node, ordered by limit. Throttled counts since the limit came into force here.
func (e *Engine) LimitTallies() []partition.Tally {
	e.namedLimits.mu.RLock()
	all := e.namedLimits.table.All()
	out, at := make([]partition.Tally, len(all)), make(map[delivery.Limit]int, len(all))
	for i, l := range all {
		out[i], at[l.Limit] = partition.Tally{Limit: l.Limit, Throttled: e.namedLimits.throttled[l.Limit]}, i
	}
	e.namedLimits.mu.RUnlock()
	for _, p := range e.parts {
		tallies := p.figures.tallies.Load()
		if tallies == nil {
			continue
		}
		for _, t := range *tallies {
			if i, known := at[t.Limit]; known {
				out[i].InForce += t.InForce
				out[i].Waiting += t.Waiting
			}
		}
	}
	return out
}

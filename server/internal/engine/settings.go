package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// Every node of a cluster applies the settings of all namespaces. It reads those in partitions of other nodes
// when it starts, when their owner announces a change, and periodically in case an announcement was lost.

const (
	// settingsEvery is how often settings in partitions of other nodes are read. Changed settings are in
	// force on all nodes within this time, and usually at once.
	settingsEvery = 5 * time.Second
	// settingsAgain is the pause before reading again if the store did not answer, periodically or after an
	// announcement.
	settingsAgain = 500 * time.Millisecond
)

// follow reads the settings periodically until the engine stops.
func (ns *namespaces) follow() {
	t := time.NewTimer(settingsEvery)
	defer t.Stop()
	failing := false
	for {
		select {
		case <-ns.partitions.life.Done():
			return
		case <-t.C:
		case <-ns.missed:
		}
		ctx, cancel := context.WithTimeout(ns.partitions.life, settingsEvery)
		err := ns.readAll(ctx)
		cancel()
		if err == nil {
			failing = false
			t.Reset(settingsEvery)
			continue
		}
		if !failing && ns.partitions.life.Err() == nil {
			ns.partitions.log.Warn("settings of namespaces may be older than they should be", "error", err)
		}
		failing = true
		t.Reset(settingsAgain)
	}
}

// readAll reads the settings of all partitions that this node does not own. It returns the first error.
func (ns *namespaces) readAll(ctx context.Context) error {
	if g, ok := ns.partitions.store.(store.Gatherer); ok {
		return ns.gather(ctx, g)
	}
	errs := make([]error, len(ns.partitions.parts))
	_ = sideBySide(len(errs), func(i int) error {
		p := ns.partitions.parts[i]
		if !p.own.holds() {
			if err := p.settings.follow(ctx); err != nil {
				errs[i] = fmt.Errorf("partition %d: %w", p.number, err)
			}
		}
		return nil // the others are read all the same
	})
	return cmp.Or(errs...)
}

// gather is readAll in one read. If a partition's settings have been read or changed meanwhile, the result is
// dropped for that partition: what is there may be newer.
func (ns *namespaces) gather(ctx context.Context, g store.Gatherer) error {
	var parts []*partitionRunner
	var numbers []int
	var before []uint64
	for _, p := range ns.partitions.parts {
		if !p.own.holds() {
			parts, numbers, before = append(parts, p), append(numbers, p.number), append(before,
				p.settings.taken.Load())
		}
	}
	all, err := g.Gather(ctx, store.KindNamespace, numbers)
	if err != nil {
		return fmt.Errorf("settings of %d partitions: %w", len(parts), err)
	}
	for i, p := range parts {
		kept, err := decodeSettings(all[i])
		if err != nil {
			return fmt.Errorf("partition %d: %w", p.number, err)
		}
		p.settings.takeGathered(kept, before[i])
	}
	return nil
}

// ReloadNamespace reads the settings of a namespace, because another node has announced a change.
func (ns *namespaces) ReloadNamespace(ctx context.Context, name string) error {
	p := ns.partitions.ofNamespace(name)
	if p.own.holds() {
		return nil
	}
	if err := p.settings.follow(ctx); err != nil {
		ns.missed.ring()
		return readError(err)
	}
	return nil
}

package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/store"
)

// Every node of a cluster goes by the settings of all namespaces. Those of partitions that others own it reads at the start,
// whenever their owner announces that they have changed, and again now and then, in case an announcement was lost.

const (
	// settingsEvery is how often settings of partitions that others own are read. Settings that have changed hold on all nodes
	// within this time, and usually at once.
	settingsEvery = 5 * time.Second
	// settingsAgain is when they are read again if the store did not answer, to that or to what was announced.
	settingsAgain = 500 * time.Millisecond
	// settingsAtOnce is how many partitions are read side by side.
	settingsAtOnce = 8
)

// followSettings reads the settings again and again until the engine stops.
func (e *Engine) followSettings() {
	t := time.NewTimer(settingsEvery)
	defer t.Stop()
	failing := false
	for {
		select {
		case <-e.life.Done():
			return
		case <-t.C:
		case <-e.missed:
		}
		ctx, cancel := context.WithTimeout(e.life, settingsEvery)
		err := e.readAllSettings(ctx)
		cancel()
		if err == nil {
			failing = false
			t.Reset(settingsEvery)
			continue
		}
		if !failing && e.life.Err() == nil {
			e.log.Warn("settings of namespaces may be older than they should be", "error", err)
		}
		failing = true
		t.Reset(settingsAgain)
	}
}

// readAllSettings reads the settings of all partitions that this node does not own. It returns the first error.
func (e *Engine) readAllSettings(ctx context.Context) error {
	if g, ok := e.store.(store.Gatherer); ok {
		return e.gatherSettings(ctx, g)
	}
	var wg sync.WaitGroup
	errs := make(chan error, len(e.parts))
	room := make(chan struct{}, settingsAtOnce)
	for _, p := range e.parts {
		if p.serving.Load() {
			continue
		}
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := p.followSettings(ctx); err != nil {
				errs <- fmt.Errorf("partition %d: %w", p.number, err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// gatherSettings is readAllSettings in one read. Of a partition whose settings have been read or changed meanwhile nothing is kept:
// those may be newer.
func (e *Engine) gatherSettings(ctx context.Context, g store.Gatherer) error {
	var parts []*partitionRunner
	var numbers []int
	var before []uint64
	for _, p := range e.parts {
		if !p.serving.Load() {
			parts, numbers, before = append(parts, p), append(numbers, p.number), append(before, p.settingsRead.Load())
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
		p.reading.take()
		if p.settingsRead.Load() == before[i] {
			p.keepSettings(kept, func() bool { return !p.serving.Load() })
		}
		p.reading.give()
	}
	return nil
}

// followSettings reads the settings that are in the partition, unless this node owns the partition: then it knows better.
func (p *partitionRunner) followSettings(ctx context.Context) error {
	p.reading.take() // what is read later is newer
	defer p.reading.give()
	return p.followNow(ctx)
}

// renewSettings is followSettings for many callers at a time: it is enough that one of them has begun to read after the others came.
func (p *partitionRunner) renewSettings(ctx context.Context) error {
	begun := p.follow.begun.Load()
	p.reading.take()
	defer p.reading.give()
	if p.follow.begun.Load() > begun {
		return p.follow.err
	}
	return p.followNow(ctx)
}

// following is how often the settings of another node's partition have begun to be read one by one, and what came of the last time.
type following struct {
	begun atomic.Uint64
	err   error // guarded by owned.reading
}

// followNow is followSettings in whose turn it is.
func (p *partitionRunner) followNow(ctx context.Context) (err error) {
	p.follow.begun.Add(1)
	defer func() { p.follow.err = err }()
	shard, err := p.e.store.Shard(p.number, store.Term{})
	if err != nil {
		return err
	}
	kept, err := p.readSettings(ctx, shard)
	if err != nil {
		return err
	}
	p.keepSettings(kept, func() bool { return !p.serving.Load() })
	return nil
}

// ReloadNamespace reads the settings of a namespace, which another node has announced to have changed.
func (e *Engine) ReloadNamespace(ctx context.Context, name string) error {
	p := e.settingsOf(name)
	if p.serving.Load() {
		return nil
	}
	if err := p.followSettings(ctx); err != nil {
		select {
		case e.missed <- struct{}{}:
		default: // they are about to be read anyway
		}
		return readError(err)
	}
	return nil
}

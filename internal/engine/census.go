package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// What is staged or dead is in the store alone: no counter in memory could say how much there is after a restart. So the node
// counts what its partitions hold, on stores that count without reading ([store.Counter]): as soon as it owns others than
// before, and otherwise now and then. The counts of all nodes of a cluster add up.

const (
	// censusLook is how often the node looks whether it is time to count.
	censusLook = time.Second
	// censusEvery is how often it counts, and censusShare bounds the share of the time that counting takes.
	censusEvery = 10 * time.Second
	censusShare = 100
)

// census is what was counted last; nil before, and on stores that cannot count.
type census struct{ counts atomic.Pointer[store.Counts] }

// countStored keeps the census until the engine stops.
func (e *Engine) countStored(c store.Counter) {
	look := time.NewTicker(censusLook)
	defer look.Stop()
	var counted []store.Holding
	for next := int64(0); ; {
		if held := e.holdings(); e.elapsed() >= next || !slices.Equal(held, counted) {
			began := e.elapsed()
			e.count(c, held)
			counted = held
			next = e.elapsed() + max(int64(censusEvery), censusShare*(e.elapsed()-began))
		}
		select {
		case <-look.C:
		case <-e.stop:
			return
		}
	}
}

// count counts what the partitions hold that the node owns. If that fails the last counts stay.
func (e *Engine) count(c store.Counter, held []store.Holding) {
	numbers := make([]int, len(held))
	for i := range held {
		numbers[i] = held[i].Partition
	}
	counts := store.NewCounts()
	if len(numbers) > 0 {
		var err error
		if counts, err = c.Count(e.life, numbers); err != nil {
			e.log.Debug("what is staged and dead could not be counted", "error", err)
			return
		}
	}
	e.census.counts.Store(&counts)
}

// Backlog is what is due in a queue and waits.
type Backlog struct {
	Ready  int   // in memory, as of the last second
	Staged int   // in the store, as of the last count
	Oldest int64 // when the oldest of them was due, UTC ns
}

func (b *Backlog) add(n int, oldest int64) (sum int) {
	if b.Ready+b.Staged == 0 || oldest < b.Oldest {
		b.Oldest = oldest
	}
	return n
}

// Backlog is what waits for a consumer, for room or for a permit, by queue. What has just been read back from the store can
// be in both numbers.
func (e *Engine) Backlog() map[partition.Queue]Backlog {
	sum := map[partition.Queue]Backlog{}
	for _, p := range e.parts {
		if waiting := p.depths.Load(); waiting != nil {
			for _, w := range *waiting {
				b := sum[w.queue]
				b.Ready += b.add(w.n, w.oldest)
				sum[w.queue] = b
			}
		}
	}
	if c := e.census.counts.Load(); c != nil {
		for name, staged := range c.Staged {
			q := partition.ParseQueue(name).Plain()
			b := sum[q]
			b.Staged += b.add(staged.N, staged.Oldest)
			sum[q] = b
		}
	}
	return sum
}

// Dead is how many dead runs there are, by namespace, as of the last count. The caller must not change it.
func (e *Engine) Dead() map[string]int {
	if c := e.census.counts.Load(); c != nil {
		return c.Dead
	}
	return nil
}

// Missing is how many names jobs wait for that no job has, as of when each partition last looked, about once a minute. A name
// counts once in each partition.
func (e *Engine) Missing() int {
	var sum int64
	for _, p := range e.parts {
		if p.serving.Load() {
			sum += p.waiters.missing.Load()
		}
	}
	return int(sum)
}

// depth is what waits in memory in a queue of a partition.
type depth struct {
	queue  partition.Queue
	n      int
	oldest int64 // UTC ns
}

// showDepths notes what waits in memory, which the partition has just lined up.
func (p *owned) showDepths() {
	depths := make([]depth, len(p.lineup))
	for i, w := range p.lineup {
		depths[i] = depth{w.Queue, w.N, p.m.Oldest(w.Queue)}
	}
	p.depths.Store(&depths)
}

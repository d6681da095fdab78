package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon/store"
)

// claims is what the engine wants of the store's book of leases. One goroutine sees to it for all lanes, so that partitions
// which are claimed, or given up, at about the same time are so in one call.
type claims struct {
	mu     sync.Mutex
	wanted []*owned
	left   []store.Holding
	bell   chan struct{} // holds one when there is something to do
}

func newClaims() *claims { return &claims{bell: make(chan struct{}, 1)} }

// want asks for partitions to be claimed. What becomes of it is told to their lane.
func (c *claims) want(ps []*owned) { c.put(func() { c.wanted = append(c.wanted, ps...) }) }

// leave asks for a term to be given up.
func (c *claims) leave(h store.Holding) { c.put(func() { c.left = append(c.left, h) }) }

func (c *claims) put(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

func (c *claims) take() (wanted []*owned, left []store.Holding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted, left = c.wanted, c.left
	c.wanted, c.left = nil, nil
	return wanted, left
}

const (
	// gatherFor is how long claims are collected for one call.
	gatherFor = 2 * time.Millisecond
	// reclaimEvery is how long after a claim a partition is claimed again at the earliest.
	reclaimEvery = 500 * time.Millisecond
	// contestEvery is how often a partition is claimed that another node holds. All of the engine are at the same moments.
	contestEvery = 200 * time.Millisecond
)

// claimer is the goroutine of the claims.
func (e *Engine) claimer() {
	for {
		select {
		case <-e.claims.bell:
		case <-e.stop:
			return // Stop gives up what is left
		}
		select {
		case <-time.After(gatherFor):
		case <-e.stop:
			return
		}
		wanted, left := e.claims.take()
		e.giveUp(left)
		e.takeOver(wanted)
	}
}

// giveUp frees partitions for others. If the store does not, their leases run out.
func (e *Engine) giveUp(left []store.Holding) {
	if len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL/renewParts)
	defer cancel()
	slices.SortFunc(left, func(a, b store.Holding) int { return cmp.Compare(a.Partition, b.Partition) })
	if err := e.store.Leaser().Release(ctx, e.cfg.Node, left); err != nil {
		e.log.Warn("partitions were not released: others get them when their leases have run out", "partitions", len(left), "error", err)
	}
}

// takeOver claims partitions and has each lane load its own.
func (e *Engine) takeOver(wanted []*owned) {
	if len(wanted) == 0 {
		return
	}
	slices.SortFunc(wanted, func(a, b *owned) int { return cmp.Compare(a.number, b.number) })
	since := e.elapsed()
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL)
	defer cancel()
	all, err := e.claim(ctx, wanted)
	if err != nil {
		all = make([]tenure, len(wanted))
		for i, p := range wanted {
			all[i] = tenure{p: p, err: err}
		}
	}
	byLane := map[*lane][]tenure{}
	for i := range all {
		all[i].since = since
		byLane[all[i].p.lane] = append(byLane[all[i].p.lane], all[i])
	}
	for l, terms := range byLane {
		e.wg.Go(func() {
			l.load(terms)
			l.claimed.put(terms)
			l.ring()
		})
	}
}

// load makes the machines of the terms.
func (l *lane) load(terms []tenure) {
	ctx, cancel := context.WithTimeout(context.Background(), l.e.cfg.LeaseTTL)
	defer cancel()
	l.e.open(terms)
	l.probe(ctx, terms)
	for i := range terms {
		if terms[i].err != nil {
			terms[i].p.abandon()
		}
	}
}

// smallProbe is the kind of the small record that a partition writes to see whether the store takes writes.
const smallProbe = 'p'

// probe writes under the new terms. A store that has just failed must show that it takes writes again, or runs would be handed
// out whose results have nowhere to go.
func (l *lane) probe(ctx context.Context, terms []tenure) {
	var opened []*tenure
	var writes []store.Write
	for i := range terms {
		if t := &terms[i]; t.err == nil {
			record := store.Small{Kind: smallProbe, Key: "probe", Value: binary.BigEndian.AppendUint64(nil, t.term.Epoch)}
			opened, writes = append(opened, t), append(writes, store.Write{Shard: t.shard, Batch: &store.Batch{Small: []store.Small{record}}})
		}
	}
	l.apply(ctx, writes, func(i int, err error) {
		if err != nil {
			opened[i].err = fmt.Errorf("the store takes no writes: %w", err)
		}
	})
}

// claimed is what has become of claims, for a lane.
type claimed struct {
	mu    sync.Mutex
	terms []tenure
}

func (c *claimed) put(terms []tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms = append(c.terms, terms...)
}

func (c *claimed) take() []tenure {
	c.mu.Lock()
	defer c.mu.Unlock()
	terms := c.terms
	c.terms = nil
	return terms
}

// reclaim asks for the partitions of the lane which it is to own and has no term for.
func (l *lane) reclaim(now int64) {
	var lost []*owned
	for _, p := range l.parts {
		if p.m == nil && !p.claiming && p.retryAt <= now && p.wanted.Load() {
			p.claiming, p.retryAt = true, now+int64(reclaimEvery)
			lost = append(lost, p)
		}
	}
	if len(lost) > 0 {
		l.e.claims.want(lost)
	}
}

// install goes on with partitions that were claimed. What has come in meanwhile is served now, or refused.
func (l *lane) install(terms []tenure) {
	for i := range terms {
		t := &terms[i]
		t.p.claiming = false
		if t.err != nil {
			t.p.cause = t.err
			if t.contested {
				t.p.away = true
				t.p.retryAt = (l.e.elapsed()/int64(contestEvery) + 1) * int64(contestEvery)
			}
			t.p.box.ring()
			continue
		}
		t.p.begin(t)
		took := time.Duration(l.e.elapsed() - t.since)
		l.e.log.Debug("partition owned", "partition", t.p.number, "epoch", t.term.Epoch, "took", took)
		l.tidings.owned = append(l.tidings.owned, tiding{partition: t.p.number, took: took})
		if owned := l.e.cfg.Events.Owned; owned != nil {
			owned(t.p.number, took)
		}
	}
	if len(terms) > 0 {
		l.ring()
	}
}

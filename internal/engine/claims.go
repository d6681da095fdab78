package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
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
	wanted []*partitionRunner
	left   []pendingRelease
	bell   chan struct{} // holds one when there is something to do
}

func newClaims() *claims { return &claims{bell: make(chan struct{}, 1)} }

// want asks for partitions to be claimed. What becomes of it is told to their lane.
func (c *claims) want(ps []*partitionRunner) { c.put(func() { c.wanted = append(c.wanted, ps...) }) }

// leave asks for terms to be given up.
func (c *claims) leave(ps ...pendingRelease) { c.put(func() { c.left = append(c.left, ps...) }) }

func (c *claims) put(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

func (c *claims) take() (wanted []*partitionRunner, left []pendingRelease) {
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

// pendingRelease is a term of this node that is over here, and that the store is to know to be over.
type pendingRelease struct {
	p     *partitionRunner
	term  store.Term // zero: whatever the store has of this node, as a claim may have been made of which nothing was heard
	until int64      // when its lease has run out in any case, by Engine.elapsed
}

// pendingRelease is one of a term that ends now.
func (p *partitionRunner) pendingRelease(term store.Term) pendingRelease {
	return pendingRelease{p, term, p.e.elapsed() + int64(p.e.cfg.LeaseTTL)}
}

// nextContest is when partitions that could not be claimed are claimed again.
func nextContest(now int64) int64 { return (now/int64(contestEvery) + 1) * int64(contestEvery) }

// claimer is the goroutine of the claims. What could not be given up it tries again.
func (e *Engine) claimer() {
	var again <-chan time.Time
	for {
		select {
		case <-e.claims.bell:
		case <-again:
		case <-e.stop:
			return // Stop gives up what is left
		}
		select {
		case <-time.After(gatherFor):
		case <-e.stop:
			return
		}
		wanted, left := e.claims.take()
		again = nil
		if left = e.giveUp(left); len(left) > 0 {
			again = time.After(contestEvery)
			e.claims.keep(left)
		}
		e.takeOver(wanted)
	}
}

// keep puts back what could not be given up.
func (c *claims) keep(left []pendingRelease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(left, c.left...)
}

// giveUp frees partitions for others. It returns what it could not free and whose leases have not run out.
func (e *Engine) giveUp(left []pendingRelease) []pendingRelease {
	now := e.elapsed()
	left = slices.DeleteFunc(left, func(l pendingRelease) bool { return l.until <= now })
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL/renewParts)
	defer cancel()
	if err := e.freePartitions(ctx, left); err != nil {
		e.log.Warn("partitions were not released: at the latest others get them when their leases have run out",
			"partitions", len(left), "error", err)
		return left
	}
	return nil
}

// mayClaim reports whether this process is known, since then, to be the node that its name says.
func (e *Engine) mayClaim(since time.Time) bool {
	return e.cfg.MayClaim == nil || e.cfg.MayClaim(since)
}

// freePartitions frees partitions. Nobody claims any meanwhile.
func (e *Engine) freePartitions(ctx context.Context, left []pendingRelease) error {
	var held []store.Holding
	unheard := map[int]bool{}
	for _, l := range left {
		if !l.term.IsZero() {
			held = append(held, store.Holding{Partition: l.p.number, Term: l.term})
		} else if t := l.p.published.Load(); t == nil || t.IsZero() { // otherwise it has been claimed again
			unheard[l.p.number] = true
		}
	}
	if len(unheard) > 0 && e.mayClaim(time.Time{}) { // otherwise they may be another process's
		owners, err := e.store.Leaser().Owners(ctx)
		if err != nil {
			return fmt.Errorf("owners of partitions: %w", err)
		}
		for _, o := range owners {
			if unheard[o.Partition] && o.Node == e.cfg.Node {
				held = append(held, store.Holding{Partition: o.Partition, Term: o.Term})
			}
		}
	}
	if len(held) == 0 {
		return nil
	}
	slices.SortFunc(held, func(a, b store.Holding) int { return cmp.Compare(a.Partition, b.Partition) })
	return e.store.Leaser().Release(ctx, e.cfg.Node, held)
}

// takeOver claims partitions and has each lane load its own.
func (e *Engine) takeOver(wanted []*partitionRunner) {
	if len(wanted) == 0 {
		return
	}
	slices.SortFunc(wanted, func(a, b *partitionRunner) int { return cmp.Compare(a.number, b.number) })
	since := e.elapsed()
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL)
	defer cancel()
	all, err := e.claim(ctx, wanted)
	if err != nil {
		all = make([]claimResult, len(wanted))
		for i, p := range wanted {
			all[i] = claimResult{p: p, err: err}
		}
	}
	byLane := map[*lane][]claimResult{}
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
func (l *lane) load(terms []claimResult) {
	ctx, cancel := context.WithTimeout(context.Background(), l.e.cfg.LeaseTTL)
	defer cancel()
	l.e.open(terms)
	l.announce(ctx, ofLane(terms, l))
	for i := range terms {
		if terms[i].err != nil {
			terms[i].p.abandon()
		}
	}
}

// probeRecord is what is written to see whether the store takes writes of a term.
func probeRecord(term store.Term) store.MetaRecord {
	return store.MetaRecord{Kind: store.KindProbe, Key: "probe", Value: binary.BigEndian.AppendUint64(nil, term.Epoch)}
}

// announce writes that the new terms begin, so that their successors know what may be in doubt. It also shows that a store which has
// just failed takes writes again: otherwise runs would be handed out whose results have nowhere to go.
func (l *lane) announce(ctx context.Context, terms []*claimResult) {
	var opened []*claimResult
	var writes []store.Write
	for _, t := range terms {
		if t.err == nil {
			batch := &store.Batch{MetaRecords: []store.MetaRecord{t.terms.Record()}}
			opened, writes = append(opened, t), append(writes, store.Write{Shard: t.shard, Batch: batch})
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
	terms []claimResult
}

func (c *claimed) put(terms []claimResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms = append(c.terms, terms...)
}

func (c *claimed) take() []claimResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	terms := c.terms
	c.terms = nil
	return terms
}

// reclaim asks for the partitions of the lane which it is to own and has no term for, and has those given up that it is not to own
// any more and whose last term ended without that.
func (l *lane) reclaim(now int64) {
	var lost []*partitionRunner
	for _, p := range l.parts {
		switch wanted := p.wanted.Load(); {
		case p.m != nil || p.claiming:
		case wanted && p.retryAt <= now && !l.e.mayClaim(p.lostAt):
			p.retryAt = nextContest(now)
		case wanted && p.retryAt <= now:
			p.claiming, p.retryAt = true, now+int64(reclaimEvery)
			lost = append(lost, p)
		case !wanted:
			p.failing.Store(nil)
			p.sever()
		}
	}
	if len(lost) > 0 {
		l.e.claims.want(lost)
	}
}

// damagedEvery is how often a partition is claimed that could not be loaded since what it needs is damaged.
const damagedEvery = time.Minute

// standStill notes that the partition could not be loaded, as what it needs is damaged. Another node of a cluster may be able to.
func (p *partitionRunner) standStill(cause error) {
	p.cause, p.lost, p.away = cause, true, false
	p.retryAt = p.e.elapsed() + int64(damagedEvery)
	p.failed(cause)
	p.e.log.Error("a partition stands still: the store has lost what it needs", "partition", p.number, "error", cause)
}

// sever has the store know that the last term is over, if it may not.
func (p *partitionRunner) sever() {
	if p.stray != nil {
		p.e.claims.leave(*p.stray)
		p.stray = nil
	}
}

// install goes on with partitions that were claimed. What has come in meanwhile is served now, or refused.
func (l *lane) install(terms []claimResult) {
	for i := range terms {
		t := &terms[i]
		t.p.claiming, t.p.lost = false, false
		if errors.Is(t.err, store.ErrDamaged) {
			stray := t.p.pendingRelease(t.term)
			t.p.stray = &stray
			t.p.standStill(t.err)
			t.p.box.ring()
			continue
		}
		if t.err != nil {
			t.p.cause = t.err
			if t.contested {
				t.p.away, t.p.stray = true, nil
				t.p.failing.Store(nil)
				t.p.retryAt = nextContest(l.e.elapsed())
			} else {
				stray := t.p.pendingRelease(t.term) // a claim that has failed may have been made
				t.p.stray = &stray
				t.p.failed(t.err)
			}
			t.p.box.ring()
			continue
		}
		t.p.begin(t)
		took := time.Duration(l.e.elapsed() - t.since)
		l.e.log.Debug("partition owned", "partition", t.p.number, "epoch", t.term.Epoch, "took", took)
		l.e.note(tiding{t.p.number, took, kind{transition: isOwned}})
		if owned := l.e.cfg.Events.Owned; owned != nil {
			owned(t.p.number, took)
		}
	}
	if len(terms) > 0 {
		l.ring()
	}
}

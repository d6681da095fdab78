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

	"github.com/carillonhq/carillon/server/store"
)

// claims collects what the engine wants from the store's leaser. One goroutine serves all lanes, so that
// partitions claimed or released at about the same time share one call.
type claims struct {
	mu       sync.Mutex
	wanted   []*partitionRunner
	releases []pendingRelease
	bell     bell // there is something to do
}

// want asks for partitions to be claimed. Their lane gets the result.
func (c *claims) want(ps []*partitionRunner) { c.put(func() { c.wanted = append(c.wanted, ps...) }) }

// release asks for terms to be released.
func (c *claims) release(rs ...pendingRelease) {
	c.put(func() { c.releases = append(c.releases, rs...) })
}

func (c *claims) put(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	c.bell.ring()
}

func (c *claims) take() (wanted []*partitionRunner, releases []pendingRelease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted, releases = c.wanted, c.releases
	c.wanted, c.releases = nil, nil
	return wanted, releases
}

const (
	// gatherFor is how long claims are collected for one call.
	gatherFor = 2 * time.Millisecond
	// reclaimEvery is the least time between two claims of a partition.
	reclaimEvery = 500 * time.Millisecond
	// contestEvery is how often a partition is claimed that another node holds. All contested partitions of
	// the engine are claimed at the same moments, so that they share a call.
	contestEvery = 200 * time.Millisecond
)

// pendingRelease is a term that is over on this node and that the store does not know to be over.
type pendingRelease struct {
	p *partitionRunner
	// Zero: any term that the store holds for this node, since a claim without an answer may have succeeded.
	term  store.Term
	until int64 // when its lease has run out in any case, by Engine.elapsed
}

// pendingRelease returns the pending release of a term that ends now.
func (p *partitionRunner) pendingRelease(term store.Term) pendingRelease {
	return pendingRelease{p, term, p.e.elapsed() + int64(p.e.cfg.LeaseTTL)}
}

// nextContest returns when contested partitions are claimed next.
func nextContest(now int64) int64 { return (now/int64(contestEvery) + 1) * int64(contestEvery) }

// claimer is the goroutine that makes and releases claims. It tries again what could not be released.
func (e *Engine) claimer() {
	var again <-chan time.Time
	for {
		select {
		case <-e.claims.bell:
		case <-again:
		case <-e.life.Done():
			return // Stop releases what is left
		}
		select {
		case <-time.After(gatherFor):
		case <-e.life.Done():
			return
		}
		wanted, releases := e.claims.take()
		again = nil
		if failed := e.release(releases); len(failed) > 0 {
			again = time.After(contestEvery)
			e.claims.keep(failed)
		}
		e.takeOver(wanted)
	}
}

// keep puts back what could not be released.
func (c *claims) keep(failed []pendingRelease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases = append(failed, c.releases...)
}

// release releases terms. It returns those that could not be released and whose leases have not run out.
func (e *Engine) release(rs []pendingRelease) (failed []pendingRelease) {
	now := e.elapsed()
	rs = slices.DeleteFunc(rs, func(r pendingRelease) bool { return r.until <= now })
	if len(rs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL/renewParts)
	defer cancel()
	if err := e.releaseNow(ctx, rs); err != nil {
		e.log.Warn("partitions were not released: at the latest others get them when their leases have run out",
			"partitions", len(rs), "error", err)
		return rs
	}
	return nil
}

// mayClaim reports whether it was confirmed after since that this process is the node of its name.
func (e *Engine) mayClaim(since time.Time) bool {
	return e.cfg.MayClaim == nil || e.cfg.MayClaim(since)
}

// releaseNow releases terms in the store. No claim is made at the same time: the claimer does both,
// one after the other.
func (e *Engine) releaseNow(ctx context.Context, rs []pendingRelease) error {
	var held []store.Holding
	unanswered := map[int]bool{}
	for _, r := range rs {
		if !r.term.IsZero() {
			held = append(held, store.Holding{Partition: r.p.number, Term: r.term})
		} else if _, again := r.p.lease.held(); !again { // otherwise it has been claimed again
			unanswered[r.p.number] = true
		}
	}
	// Otherwise they may belong to another process of this name.
	if len(unanswered) > 0 && e.mayClaim(time.Time{}) {
		owners, err := e.store.Leaser().Owners(ctx)
		if err != nil {
			return fmt.Errorf("owners of partitions: %w", err)
		}
		for _, o := range owners {
			if unanswered[o.Partition] && o.Node == e.cfg.Node {
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

// takeOver claims partitions and lets each lane load its own.
func (e *Engine) takeOver(wanted []*partitionRunner) {
	if len(wanted) == 0 {
		return
	}
	slices.SortFunc(wanted, func(a, b *partitionRunner) int { return cmp.Compare(a.number, b.number) })
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL)
	defer cancel()
	began := time.Now()
	all, err := e.claim(ctx, wanted)
	e.heard(began, err)
	if err != nil {
		all = make([]*claimResult, len(wanted))
		for i, p := range wanted {
			all[i] = &claimResult{p: p, err: err}
		}
	}
	for l, terms := range byLane(all) {
		e.wg.Go(func() {
			l.load(terms)
			l.claimed <- terms
			l.ring()
		})
	}
}

// byLane returns the claim results of each lane's partitions.
func byLane(all []*claimResult) map[*lane][]*claimResult {
	lanes := map[*lane][]*claimResult{}
	for _, t := range all {
		lanes[t.p.lane] = append(lanes[t.p.lane], t)
	}
	return lanes
}

// load makes the machines of the terms.
func (l *lane) load(terms []*claimResult) {
	ctx, cancel := context.WithTimeout(context.Background(), l.e.cfg.LeaseTTL)
	defer cancel()
	l.e.open(terms)
	l.announce(ctx, terms)
	for _, t := range terms {
		if t.err != nil {
			t.p.abandon()
		}
	}
}

// probeRecord returns the record that is written to find out whether the store takes writes of a term.
func probeRecord(term store.Term) store.MetaRecord {
	return store.MetaRecord{Kind: store.KindProbe, Key: "probe",
		Value: binary.BigEndian.AppendUint64(nil, term.Epoch)}
}

// announce writes a record that the new terms begin, so that the next owners know which attempts may be in
// doubt. It also proves that a store which has just failed takes writes again. Otherwise runs would be handed
// out whose results cannot be stored.
func (l *lane) announce(ctx context.Context, terms []*claimResult) {
	var opened []*claimResult
	var writes []store.Write
	for _, t := range terms {
		if t.err == nil {
			batch := &store.Batch{MetaRecords: []store.MetaRecord{t.terms.Record()}}
			opened, writes = append(opened, t), append(writes, store.Write{Shard: t.shard, Batch: batch})
		}
	}
	if len(writes) == 0 {
		return
	}
	since := l.e.elapsed()
	stored, err := l.e.stores(writes)
	if err == nil {
		err = apply(ctx, l.grouper, stored)
	}
	l.e.reportCommit(writes, time.Duration(l.e.elapsed()-since), err)
	if err != nil {
		for _, t := range opened {
			t.err = fmt.Errorf("the store takes no writes: %w", err)
		}
	}
}

// reclaim requests claims for the lane's partitions that this node is to own and has no term for. For
// partitions that it is not to own it releases a last term that the store may still believe in.
func (l *lane) reclaim(now int64) {
	var claim []*partitionRunner
	for _, p := range l.parts {
		switch o := &p.own; {
		case o.holds() || o.is(claiming):
		case !o.wanted.Load():
			endOvertime(p) // before another node can have the partition
			p.health.Clear()
			p.releaseLast()
		case o.retryAt > now:
		case !l.e.mayClaim(o.lostAt):
			o.retryAt = nextContest(now)
		default:
			o.claim(now + int64(reclaimEvery))
			claim = append(claim, p)
		}
	}
	if len(claim) > 0 {
		l.e.claims.want(claim)
	}
}

// damagedEvery is how often a partition is claimed again that could not be loaded because of damage.
const damagedEvery = time.Minute

// standStill ends a claim of a partition that could not be loaded because what it needs is damaged.
func (p *partitionRunner) standStill(t *claimResult) {
	p.own.damaged(t.err, p.pendingRelease(t.term), p.e.elapsed()+int64(damagedEvery))
	p.health.Fail(t.err, p.e.elapsed(), false)
	p.e.log.Error("a partition stands still: the store has lost what it needs", "partition",
		p.number, "error", t.err)
}

// releaseLast releases the last term in the store, if the store may not know that it is over.
func (p *partitionRunner) releaseLast() {
	if over := p.own.unreleased; over != nil {
		p.own.unreleased = nil
		p.e.claims.release(*over)
	}
}

// install takes the results of claims: the partition is owned, or is claimed again later. Mail that has come
// in meanwhile is then served or refused.
func (l *lane) install(terms []*claimResult) {
	for _, t := range terms {
		switch p := t.p; {
		case t.err == nil:
			p.begin(t)
			t.logOwned(time.Duration(l.e.elapsed() - t.since))
			continue
		case errors.Is(t.err, store.ErrDamaged):
			p.standStill(t)
		case t.contested:
			p.own.contested(t.err, nextContest(l.e.elapsed()))
			p.health.Clear()
		default:
			p.own.claimFailed(t.err, p.pendingRelease(t.term))
			p.health.Fail(t.err, l.e.elapsed(), false)
		}
		t.p.box.ring()
	}
	l.ring()
}

// logOwned reports that the partition is owned, took after its claim began.
func (t *claimResult) logOwned(took time.Duration) {
	e, number := t.p.e, t.p.number
	e.log.Debug("partition owned", "partition", number, "epoch", t.term.Epoch, "took", took)
	e.ownershipLog.add(number, took, ownershipLine{message: "partitions owned"})
	if f := e.cfg.Events.Owned; f != nil {
		f(number, took)
	}
}

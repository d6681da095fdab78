package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// claimResult is the result of claiming one partition: a term with a loaded machine, or an error.
type claimResult struct {
	p     *partitionRunner
	term  store.Term
	shard store.Shard
	m     *partition.Machine
	homes *homes // nil if this node is alone
	terms partition.Terms
	err   error

	before before // what was known of the partition's owner before the claim

	contested bool  // another node holds the partition
	since     int64 // when the claim began, by Engine.elapsed
}

// claim claims partitions under new terms. Their lanes do not run yet, or have no term for them.
func (e *Engine) claim(ctx context.Context, parts []*partitionRunner) ([]claimResult, error) {
	numbers := make([]int, len(parts))
	for i, p := range parts {
		numbers[i] = p.number
	}
	began := e.elapsed()
	owners, err := e.ownersBefore(ctx)
	if err != nil {
		return nil, err
	}
	since, at := e.elapsed(), e.now()
	terms, err := e.store.Leaser().Claim(ctx, e.cfg.Node, numbers, e.cfg.LeaseTTL)
	if err != nil {
		return nil, fmt.Errorf("claim partitions: %w", err)
	}
	// for all of them before anything can fail, so that they are released if it does
	for i, p := range parts {
		p.published.Store(&terms[i])
		p.leased.Store(since)
		p.leasedAt.Store(at)
	}
	known := e.known(owners, began)
	out := make([]claimResult, len(parts))
	for i, p := range parts {
		out[i] = claimResult{p: p, term: terms[i], before: known}
		if terms[i].IsZero() {
			out[i].contested, out[i].err = true, fmt.Errorf("partition %d is held by another node", p.number)
		}
	}
	return out, nil
}

// loadsAtOnce is how many partitions are loaded concurrently. Each load takes some ten reads one after the
// other, which are round trips to a store on another machine. The store's connections are needed for other
// calls, too.
const loadsAtOnce = 8

// newLoads makes the semaphore that bounds concurrent loads. For a store in this process one at a time is
// enough: its reads do not wait for a network.
func newLoads(s store.Store) chan struct{} {
	if inProcess(s) {
		return make(chan struct{}, 1)
	}
	return make(chan struct{}, loadsAtOnce)
}

// inProcess reports whether a store is in this process: it can make groups durable, and gains nothing from
// reads of many partitions in one request.
func inProcess(s store.Store) bool {
	_, groups := s.(store.Grouper)
	_, far := s.(store.Reader)
	return groups && !far
}

// open makes the machines of the terms that were claimed.
func (e *Engine) open(terms []claimResult) {
	now := e.now()
	var all sync.WaitGroup
	for i := range terms {
		t := &terms[i]
		if t.err != nil {
			continue
		}
		e.loads <- struct{}{} // shared with the loads of other lanes
		all.Go(func() {
			defer func() { <-e.loads }()
			if err := t.p.open(t, now); err != nil {
				t.err = fmt.Errorf("load partition %d: %w", t.p.number, err)
			}
		})
	}
	all.Wait()
}

// open makes the machine of a term. It loads what the store holds in metadata records; everything else is
// read when it is needed.
func (p *partitionRunner) open(t *claimResult, now int64) (err error) {
	if t.shard, err = p.e.store.Shard(p.number, t.term); err != nil {
		return err
	}
	snapshot, err := readSnapshot(p.ctx, t.shard)
	if err != nil {
		return err
	}
	if err := p.loadSettings(t.shard); err != nil {
		return err
	}
	if err := p.loadTerms(t); err != nil {
		return err
	}
	if p.e.cfg.Peers != nil {
		t.homes = p.newHomes(t.term)
	}
	m, held, damaged := partition.Open(p.config(t, now), snapshot)
	if damaged != nil {
		p.e.log.Error("some backfills cannot be read and do not go on", "partition", p.number, "error", damaged)
	}
	t.m = m
	if err := p.charge(t, held); err != nil {
		return err
	}
	return p.readDoubts(t, now)
}

// config returns the configuration of a term's machine.
func (p *partitionRunner) config(t *claimResult, now int64) partition.Config {
	cfg := p.e.cfg.Partition
	cfg.Partition, cfg.Term, cfg.MACKey, cfg.Since = p.number, t.term, p.e.macKey, now
	cfg.Ended = t.terms.Ended
	cfg.Limits, cfg.Events = p.e.cfg.Limits, p.e.cfg.Events.Events
	cfg.Limiter, cfg.Settings = p.limiterOf(t.homes), p.e.settings.get
	if cfg.WindowJobs == 0 {
		cfg.WindowJobs = max(minWindow, p.e.cfg.WindowJobs/p.e.store.Meta().Partitions)
	}
	cfg.GrantsKept = cmp.Or(cfg.GrantsKept, max(partition.DefaultGrantsKept, grantsKept/p.e.store.Meta().Partitions))
	return cfg
}

// grantsKept bounds how many attempts the node writes to the store because of their age, within the time that
// makes them old. Each partition may write its share, and at least [partition.DefaultGrantsKept].
const grantsKept = 8192

// minWindow is the least number of jobs that a partition keeps in memory, however many partitions share the
// node's budget.
const minWindow = 256

// begin starts to serve under a new term: the partition is owned from here on.
func (p *partitionRunner) begin(t *claimResult) {
	p.term, p.shard, p.m, p.homes, p.durable, p.unfinished = t.term, t.shard, t.m, t.homes, 0, true
	p.sent, p.away, p.leaving, p.stray = 0, false, false, nil
	p.box.keep(func(m *mail) {
		for i := range m.losses {
			m.losses[i].former = true
		}
	})
	if p.passing != nil {
		p.passing() // this node hears from now on what the owner elsewhere has not heard
	}
	p.gone, p.sweeping = map[string]int64{}, false
	p.waiters.next.Store(p.e.elapsed() + int64(waitersFirst))
	p.beganAt.Store(p.e.elapsed())
	p.serving.Store(true)
	p.blocked, p.unserved, p.moved = map[partition.Queue]bool{}, map[partition.Queue]bool{}, map[partition.Queue]int{}
	p.wake = 0
	clear(p.missing)
}

// lose gives up the term. What memory holds may be ahead of the store, so it is thrown away and all waiting
// callers are answered. The partition is then claimed again under a new term and loaded again.
func (p *partitionRunner) lose(cause error) {
	err := unavailable(cause)
	isUnknown := store.OutcomeOf(cause) == store.Unknown
	p.e.log.Debug("partition lost its term", "partition", p.number, "epoch", p.term.Epoch, "error", cause, "outcome_unknown", isUnknown)
	p.e.note(tiding{p.number, 0, kind{isLost, cause.Error(), isUnknown}})
	flight := p.lane.inFlight(p)
	for _, w := range p.waiting {
		switch {
		case w.seq > p.sent:
			w.answer(err)
		case w.final && flight != nil:
			flight.waiting, flight.since = append(flight.waiting, w), p.e.elapsed()
		default:
			w.answer(leftOpen(cause))
		}
	}
	p.takeBack(p.m.PendingDeliveries())
	if !p.leaving { // a hand-over has already done so
		p.leaveOrphans()
	}
	p.away, p.lostAt = p.away || taken(cause) || p.e.cfg.Peers != nil && errors.Is(cause, errExpired), time.Now()
	if !taken(cause) {
		stray := p.pendingRelease(p.term)
		p.stray = &stray
		p.failed(cause)
	} else {
		p.failing.Store(nil)
	}
	p.drop(cause)
	p.lostTerm()
	if lost := p.e.cfg.Events.Lost; lost != nil {
		lost(p.number)
	}
}

// taken reports whether a term was lost because another owner has claimed the partition.
func taken(cause error) bool {
	return errors.Is(cause, errTaken) || store.OutcomeOf(cause) == store.Fenced
}

// takeBack keeps pending deliveries, which will now not be sent, for the next term of this node. The store
// may hold their attempts as handed out, and without this their runs would wait until the attempts' leases
// run out.
func (p *partitionRunner) takeBack(pending []partition.Token) {
	p.box.keep(func(m *mail) {
		for _, tok := range pending {
			m.losses = append(m.losses, loss{tok: tok, undelivered: true})
		}
	})
}

// abandon forgets a term.
func (p *partitionRunner) abandon() {
	p.published.Store(&store.Term{})
	p.e.limiter.abandon(p.number) // has no effect in a cluster
}

// leftOpen returns the error for a caller whose change the store may or may not have taken.
func leftOpen(cause error) *carillon.Error {
	err := carillon.Errorf(carillon.Unavailable, "", "it is not known whether the store took the change: %w", cause)
	err.Unknown = true
	return err
}

// unavailable returns the error for a caller whose change was not sent to the store, or which the store has
// certainly not taken.
func unavailable(cause error) *carillon.Error {
	err := carillon.Errorf(carillon.Unavailable, "", "%w: %w", ErrNotTaken, cause)
	err.Err = fmt.Errorf("%w: %w", ErrNotTaken, cause)
	if taken(cause) {
		err.Err = fmt.Errorf("%w: %w", ErrNotOwner, cause)
	}
	return err
}

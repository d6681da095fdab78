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

// claimResult is what became of claiming a partition: a term with a machine that knows what the store holds, or why not.
type claimResult struct {
	p     *partitionRunner
	term  store.Term
	shard store.Shard
	m     *partition.Machine
	homes *homes // nil: this node is alone
	terms partition.Terms
	err   error

	before before // what was known of the partition's owner

	contested bool  // another node holds the partition
	since     int64 // when the claim began, by Engine.elapsed
}

// claim takes partitions under new terms. They belong to lanes that do not run yet, or have no term.
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
	for i, p := range parts { // all of them before anything can fail: they are to be given up again
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

// loadsAtOnce is how many partitions are loaded side by side. Each takes some ten reads one after the other, which are round trips
// to a store on another machine; its connections are for other calls too.
const loadsAtOnce = 8

// newLoads makes what bounds the loads of an engine. The reads of a store that is in this process wait for nobody.
func newLoads(s store.Store) chan struct{} {
	if inProcess(s) {
		return make(chan struct{}, 1)
	}
	return make(chan struct{}, loadsAtOnce)
}

// inProcess reports whether a store is in this process: it makes groups durable, and is not better asked for much at once.
func inProcess(s store.Store) bool {
	_, groups := s.(store.Grouper)
	_, far := s.(store.Reader)
	return groups && !far
}

// open makes the machines of the terms that were got.
func (e *Engine) open(terms []claimResult) {
	now := e.now()
	var all sync.WaitGroup
	for i := range terms {
		t := &terms[i]
		if t.err != nil {
			continue
		}
		e.loads <- struct{}{} // held by those of other lanes as well
		all.Go(func() {
			defer func() { <-e.loads }()
			if err := t.p.open(t, now); err != nil {
				t.err = fmt.Errorf("load partition %d: %w", t.p.number, err)
			}
		})
	}
	all.Wait()
}

// open makes the machine of a term: it knows what the store holds in metadata records, everything else is read as it is needed.
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

// config is what the machine of a term is made with.
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

// grantsKept is how many attempts the node makes durable for their age within the time that makes them old, at least.
const grantsKept = 8192

// minWindow is the least a partition keeps in memory, however many share the node's budget.
const minWindow = 256

// begin goes on under a new term.
func (p *partitionRunner) begin(t *claimResult) {
	p.term, p.shard, p.m, p.homes, p.durable, p.unfinished = t.term, t.shard, t.m, t.homes, 0, true
	p.sent, p.away, p.leaving, p.stray = 0, false, false, nil
	p.box.keep(func(m *mail) {
		for i := range m.losses {
			m.losses[i].former = true
		}
	})
	if p.passing != nil {
		p.passing() // what it has not got heard, this node hears
	}
	p.gone, p.sweeping = map[string]int64{}, false
	p.waiters.next.Store(p.e.elapsed() + int64(waitersFirst))
	p.beganAt.Store(p.e.elapsed())
	p.serving.Store(true)
	p.blocked, p.unserved, p.moved = map[partition.Queue]bool{}, map[partition.Queue]bool{}, map[partition.Queue]int{}
	p.wake = 0
	clear(p.missing)
}

// lose gives up the term: what memory holds may be ahead of the store, so it is thrown away, everybody who waits is told,
// and the partition is claimed again under a new term and loaded afresh.
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
	if !p.leaving { // or that is done
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

// taken reports whether a term was lost because another owner has the partition.
func taken(cause error) bool {
	return errors.Is(cause, errTaken) || store.OutcomeOf(cause) == store.Fenced
}

// takeBack keeps for the next term of this node attempts that were to be durable before they leave, and will not leave: the store
// may hold them, and their runs would wait until they are over.
func (p *partitionRunner) takeBack(pledged []partition.Token) {
	p.box.keep(func(m *mail) {
		for _, tok := range pledged {
			m.losses = append(m.losses, loss{tok: tok, undelivered: true})
		}
	})
}

// abandon forgets a term.
func (p *partitionRunner) abandon() {
	p.published.Store(&store.Term{})
	p.e.limiter.abandon(p.number) // of nothing in a cluster
}

// leftOpen is what a caller is told of whose change the store may have taken.
func leftOpen(cause error) *carillon.Error {
	err := carillon.Errorf(carillon.Unavailable, "", "it is not known whether the store took the change: %w", cause)
	err.Unknown = true
	return err
}

// unavailable is what a caller is told of whose change nothing has left for the store, or which the store has certainly not taken.
func unavailable(cause error) *carillon.Error {
	err := carillon.Errorf(carillon.Unavailable, "", "%w: %w", ErrNotTaken, cause)
	err.Err = fmt.Errorf("%w: %w", ErrNotTaken, cause)
	if taken(cause) {
		err.Err = fmt.Errorf("%w: %w", ErrNotOwner, cause)
	}
	return err
}

package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/store"
)

// claimResult is the result of claiming one partition: a term with a loaded machine, or an error.
type claimResult struct {
	p       *partitionRunner
	term    store.Term
	shard   store.Shard
	m       *partition.Machine
	permits *clusterPermits
	terms   partition.Terms
	err     error

	prior priorOwners // who owned partitions before the claim

	contested bool  // another node holds the partition
	since     int64 // when the claim began, by Engine.elapsed
}

// claim claims partitions under new terms. Their lanes do not run yet, or have no term for them.
func (e *Engine) claim(ctx context.Context, parts []*partitionRunner) ([]*claimResult, error) {
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
	stopOvertimes(parts)
	// for all of them before anything can fail, so that they are released if it does
	for i, p := range parts {
		p.lease.grant(&terms[i], since, at)
	}
	known := e.known(owners, began)
	out := make([]*claimResult, len(parts))
	for i, p := range parts {
		out[i] = &claimResult{p: p, term: terms[i], prior: known, since: began}
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
func (e *Engine) open(terms []*claimResult) {
	now := e.now()
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseTTL)
	unread := e.queues.beforeTerms(ctx)
	cancel()
	e.eachTerm(terms, func(t *claimResult) error {
		if unread != nil {
			return unread
		}
		return t.loadSettings()
	})
	// What is in doubt is found while a term is opened, and depends on calendars that another of the
	// partitions keeps.
	e.eachTerm(terms, func(t *claimResult) error { return t.open(now) })
}

// eachTerm calls load for each of the terms that has no error yet, and notes its error.
func (e *Engine) eachTerm(terms []*claimResult, load func(*claimResult) error) {
	var all sync.WaitGroup
	for _, t := range terms {
		if t.err != nil {
			continue
		}
		e.loads <- struct{}{} // shared with the loads of other lanes
		all.Go(func() {
			defer func() { <-e.loads }()
			if err := load(t); err != nil {
				t.err = fmt.Errorf("load partition %d: %w", t.p.number, err)
			}
		})
	}
	all.Wait()
}

// loadSettings reads the settings and calendars of namespaces that the partition of a term keeps.
func (t *claimResult) loadSettings() (err error) {
	if t.shard, err = t.p.e.shardOf(t.p.number, t.term); err != nil {
		return err
	}
	if err := t.p.e.admit(context.Background(), t.shard); err != nil {
		return err
	}
	return t.p.settings.load(context.Background(), t.shard) // reads end with the store
}

// open makes the machine of a term. It loads what the store holds in metadata records; everything else is
// read when it is needed.
func (t *claimResult) open(now int64) (err error) {
	p, ctx := t.p, context.Background() // reads end with the store
	// A node that waited for the partition while everything went to another store finds this.
	marks, err := t.shard.MetaRecords(ctx, store.MoveMarks)
	if err != nil {
		return err
	}
	if err := store.CheckMove(marks); err != nil {
		return err
	}
	snapshot, err := readSnapshot(ctx, p.number, t.shard)
	if err != nil {
		return err
	}
	if err := t.loadTerms(ctx); err != nil {
		return err
	}
	t.permits = p.newPermits(t.term)
	m, held, damaged := partition.Open(t.config(now), snapshot)
	if damaged != nil {
		p.e.log.Error("records of the partition are damaged, and it goes on without them", "partition", p.number, "error", damaged)
	}
	t.m, t.permits.m = m, m
	if p.e.cfg.Peers == nil {
		p.e.limiter.locked(func(c *permit.Counter) { c.Charge(p.number, held) })
		held = nil
	}
	if err := t.permits.load(ctx, t.shard, held); err != nil {
		return err
	}
	return t.readInDoubt(ctx, now)
}

// newPermits makes what handles the permits of a term.
func (p *partitionRunner) newPermits(term store.Term) *clusterPermits {
	e, asker := p.e, message.Asker{Partition: p.number, Term: term}
	local := func(number int) *mailbox {
		if other := e.parts[number]; other.own.holds() {
			return other.box
		}
		return nil
	}
	return &clusterPermits{
		asker: asker, queued: map[int][]message.PermitGrant{}, replies: &p.replies, box: p.box,
		pool: permit.NewPool(asker, len(e.parts), e.LimitOf, e.sendPermits),
		home: permit.NewHome(term, e.LimitOf, e.settings.rate),
		net: permitNet{local: local, peers: e.cfg.Peers, elapsed: e.elapsed, now: e.now, life: e.life, wg: &e.wg,
			log: e.log},
	}
}

// config returns the configuration of a term's machine.
func (t *claimResult) config(now int64) partition.Config {
	p := t.p
	cfg := p.e.cfg.Partition
	cfg.Partition, cfg.Term, cfg.MACKey, cfg.Since = p.number, t.term, p.e.macKey, now
	cfg.Ended = t.terms.Ended
	cfg.Limits, cfg.Events = p.e.cfg.Limits, p.e.cfg.Events.Events
	cfg.Settings, cfg.Rated = p.e.settings.get, p.e.settings.ratedOf
	cfg.Limiter = t.permits.pool
	if p.e.cfg.Peers == nil {
		cfg.Limiter = rateLimiter{share{p.e.limiter, p.number}, t.permits.pool}
	}
	cfg.Calendars, cfg.Wanted = p.e.settings.dates, p.e.settings.wanted
	if cfg.WindowJobs == 0 {
		cfg.WindowJobs = max(minWindow, p.e.cfg.WindowJobs/p.e.store.Meta().Partitions)
	}
	cfg.GrantsKept = cmp.Or(cfg.GrantsKept,
		max(partition.DefaultGrantsKept, grantsKept/p.e.store.Meta().Partitions))
	return cfg
}

// grantsKept bounds how many attempts the node writes to the store because of their age, within the time that
// makes them old. Each partition may write its share, and at least [partition.DefaultGrantsKept].
const grantsKept = 8192

// minWindow is the least number of jobs that a partition keeps in memory, however many partitions share the
// node's budget.
const minWindow = 256

// priorOwners is what the store knew about the owners of partitions when they were claimed.
type priorOwners struct {
	owners map[int]store.Owner // nil: unknown
	now    int64               // when the claim was made, UTC ns
	skew   int64               // how far a node's clock may be from the store's, either way
	margin int64               // how long before the end of its lease an owner stops handing out
}

// maxSkew is how far the clock of a cluster's node may be from the store's. A node with a larger difference
// owns nothing.
const maxSkew = time.Second

// ownersBefore reads who owns partitions that are about to be claimed. If a claim then succeeds, no other
// node has renewed that partition's lease in between, unless the read and the claim take as long as a lease
// lasts. In that case known treats the owners as unknown.
func (e *Engine) ownersBefore(ctx context.Context) (map[int]store.Owner, error) {
	list, err := e.store.Leaser().Owners(ctx)
	if err != nil {
		return nil, fmt.Errorf("owners of partitions: %w", err)
	}
	owners := make(map[int]store.Owner, len(list))
	for _, o := range list {
		owners[o.Partition] = o
	}
	return owners, nil
}

// known returns what is known after a claim whose preparation began at since (Engine.elapsed).
func (e *Engine) known(owners map[int]store.Owner, since int64) priorOwners {
	b := priorOwners{owners: owners, now: e.now(), margin: int64(e.cfg.LeaseTTL - e.validFor())}
	if e.cfg.Peers != nil {
		b.skew = int64(maxSkew)
	}
	if e.elapsed()-since >= int64(e.cfg.LeaseTTL)/2 {
		b.owners = nil
	}
	return b
}

// follows reports whether surely no other process has had a term since this one's last. Between the two may
// be one that this process claimed without getting so far as to begin it.
func (t *claimResult) follows(last *ownership) bool {
	epoch, o := last.term.Epoch, t.prior.owners[t.p.number]
	if last.claimedInVain && o.Node == t.p.e.cfg.Node && o.Term.Epoch == epoch+1 {
		epoch++
	}
	return t.term.Epoch == epoch+1
}

// until returns the latest due time of anything that a term of a partition may have handed out. An owner
// hands out nothing once its lease may have ended. Of a term that was released, or is not the last, it is
// only known that it has ended by now.
func (b *priorOwners) until(partition int, term store.Term) int64 {
	now := b.now + 2*b.skew // this node's clock may be as far behind
	if o, known := b.owners[partition]; known && o.Term == term && !o.Until.IsZero() {
		return min(now, o.Until.UnixNano()+max(0, b.skew-b.margin))
	}
	return now
}

// loadTerms reads which terms of the partition may have left attempts in doubt, and adds the new term. That
// record is written before the new term hands anything out.
func (t *claimResult) loadTerms(ctx context.Context) error {
	p := t.p
	records, err := t.shard.MetaRecords(ctx, store.MetaQuery{Kind: store.KindTerms, Limit: 1})
	if err != nil {
		return err
	}
	for _, r := range records {
		if t.terms, err = partition.ParseTerms(r.Value); err != nil {
			return err
		}
	}
	t.terms.End(func(term store.Term) int64 {
		if term == p.own.term {
			return max(t.prior.now, p.lease.handedOut) // this process had the term
		}
		return t.prior.until(p.number, term)
	})
	t.terms.Open = []store.Term{t.term}
	return nil
}

// readInDoubt reads the records that may hold attempts in doubt, as far as there is memory for them, so that
// requests for such runs find them.
func (t *claimResult) readInDoubt(ctx context.Context, now int64) error {
	for t.m.Window.Unread() {
		q, ok := t.m.Window.WantDue(now)
		if !ok {
			return nil
		}
		records, err := t.shard.Due(ctx, q)
		if err != nil {
			return err
		}
		t.m.Window.Loaded(q, records, now)
	}
	return nil
}

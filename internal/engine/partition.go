package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
)

// owned is one partition that this node owns, and the goroutine around its machine.
type owned struct {
	e      *Engine
	number int
	box    *mailbox
	ctx    context.Context // of reads: never cancelled, since they end with the store

	// Of the goroutine alone.
	term         store.Term
	shard        store.Shard
	m            *partition.Machine // nil: the term was lost
	cause        error              // why
	retryAt      int64              // when to claim again
	inFlight     bool
	durable      uint64
	waiting      []answer                 // in the order of their batches
	blocked      map[partition.Queue]bool // queues that the dispatcher will tell us about
	unserved     map[partition.Queue]bool // queues without a consumer
	moved        map[partition.Queue]int  // delivered since the last poll
	lineup       []partition.Waiting
	parkedQueues []partition.Queue
	touched      []store.Ref // brought into memory by calls of this round
	unfinished   bool        // batch puts that an earlier owner may have left are to be looked for
	polled       int64
	swept        int64

	backfillsSwept string // key of the ended backfill that was looked at last

	commits   chan commitJob
	quiet     chan struct{} // closed once draining and nothing is in force
	published atomic.Pointer[store.Term]
	leased    atomic.Int64 // when the last renewal of the lease began, by Engine.elapsed
	applying  atomic.Int64 // since when the store writes a batch, by Engine.elapsed; 0 = it does not
	stats     atomic.Pointer[partition.Stats]
	depths    atomic.Pointer[[]partition.Waiting] // once a second
}

func newOwned(e *Engine, number int) *owned {
	return &owned{e: e, number: number, box: newMailbox(), ctx: context.Background(), commits: make(chan commitJob, 1), quiet: make(chan struct{})}
}

// pollEvery is the safety poll beside the exact timer.
const pollEvery = time.Second

// sweepEvery is how often finished runs are looked through for those whose retention has ended.
const sweepEvery = time.Minute

// claim takes the partition under a new term.
func (p *owned) claim(now int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.e.cfg.LeaseTTL)
	defer cancel()
	since := p.e.elapsed()
	terms, err := p.e.store.Leaser().Claim(ctx, p.e.cfg.Node, []int{p.number}, p.e.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	if terms[0].IsZero() {
		return fmt.Errorf("partition %d is held by another node", p.number)
	}
	p.leased.Store(since)
	if err := p.begin(terms[0], now); err != nil {
		return err
	}
	// A store that has just failed must show that it takes writes again, or runs would be handed out whose results have
	// nowhere to go.
	probe := store.Small{Kind: smallProbe, Key: "probe", Value: binary.BigEndian.AppendUint64(nil, terms[0].Epoch)}
	if err := p.shard.Apply(ctx, &store.Batch{Small: []store.Small{probe}}); err != nil {
		p.abandon()
		return fmt.Errorf("the store takes no writes: %w", err)
	}
	return nil
}

// smallProbe is the kind of the small record that a partition writes to see whether the store takes writes.
const smallProbe = 'p'

// abandon forgets the term.
func (p *owned) abandon() {
	p.m, p.shard = nil, nil
	p.published.Store(&store.Term{})
	p.stats.Store(&partition.Stats{})
	p.e.limiter.abandon(p.number)
}

// begin starts a term with an empty machine.
func (p *owned) begin(term store.Term, now int64) error {
	shard, err := p.e.store.Shard(p.number, term)
	if err != nil {
		return fmt.Errorf("open partition %d: %w", p.number, err)
	}
	parked, err := shard.Small(p.ctx, store.SmallQuery{Kind: partition.SmallParked, Limit: maxParkedQueues})
	if err != nil {
		return fmt.Errorf("load partition %d: %w", p.number, err)
	}
	rest, err := p.loadSmall(shard)
	if err != nil {
		return fmt.Errorf("load partition %d: %w", p.number, err)
	}
	limited, err := p.loadLimited(shard)
	if err != nil {
		return fmt.Errorf("load partition %d: %w", p.number, err)
	}
	if err := p.loadSettings(shard); err != nil {
		return fmt.Errorf("load partition %d: %w", p.number, err)
	}
	cfg := p.e.cfg.Partition
	cfg.Partition, cfg.Term, cfg.MACKey, cfg.Since = p.number, term, p.e.macKey, now
	cfg.Limits, cfg.Events = p.e.cfg.Limits, p.e.cfg.Events.Events
	cfg.Limiter, cfg.Settings = share{p.e.limiter, p.number}, p.e.settings.get
	if cfg.WindowJobs == 0 {
		cfg.WindowJobs = max(minWindow, p.e.cfg.WindowJobs/p.e.store.Meta().Partitions)
	}
	cfg.GrantsKept = cmp.Or(cfg.GrantsKept, max(partition.DefaultGrantsKept, grantsKept/p.e.store.Meta().Partitions))
	p.m = partition.New(cfg)
	p.m.LoadParked(parked)
	p.m.LoadEdges(rest.edges, now)
	p.m.LoadOutbox(rest.outbox)
	p.m.LoadApplied(rest.applied)
	p.unfinished = true
	p.e.limiter.charge(p.number, p.m.LoadLimited(limited.small, limited.records))
	p.term, p.shard, p.inFlight, p.durable = term, shard, false, 0
	if err := p.loadBackfills(now); err != nil {
		p.abandon()
		return fmt.Errorf("load partition %d: %w", p.number, err)
	}
	p.blocked, p.unserved, p.moved = map[partition.Queue]bool{}, map[partition.Queue]bool{}, map[partition.Queue]int{}
	p.published.Store(&term)
	return nil
}

// grantsKept is how many attempts the node makes durable for their age within the time that makes them old, at least.
const grantsKept = 8192

// minWindow is the least a partition keeps in memory, however many share the node's budget.
const minWindow = 256

// maxParkedQueues bounds the list of queues with parked runs that is read at takeover.
const maxParkedQueues = 100_000

// run is the partition's goroutine.
func (p *owned) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.box.bell:
		case <-timer.C:
		case <-p.e.stop:
			p.end()
			return
		}
		if turn := p.e.cfg.Turn; turn != nil {
			turn(p.number)
		}
		p.round()
		timer.Reset(p.sleep())
	}
}

// sleep is how long nothing happens by itself.
func (p *owned) sleep() time.Duration {
	if p.m == nil {
		return reclaimEvery
	}
	at, ok := p.m.NextWake()
	if !ok {
		return pollEvery
	}
	return max(0, min(pollEvery, time.Duration(at-p.e.now())))
}

// round does everything that has come up.
func (p *owned) round() {
	in := p.box.take()
	now := p.e.now()
	p.checkLease(in.lost)
	if p.m == nil {
		p.reclaim(now)
	}
	for _, c := range in.committed {
		p.settled(c, now)
	}
	if p.m == nil {
		p.refuse(in)
		return
	}
	p.goOn()
	p.hear(in, now)
	for _, t := range in.tokens {
		p.m.Promote(now, t.line, t.n)
	}
	p.serveCalls(in.calls, now)
	p.correspond(in.heard, now)
	p.m.Tick(now)
	p.poll(now)
	p.feed(now)
	p.dispatch(in, now)
	p.m.PassTokens()
	p.m.Settle(p.touched)
	p.touched = p.touched[:0]
	if c := p.m.Cancels(); len(c) > 0 {
		p.e.dispatcher.Cancel(c)
	}
	p.commit()
	p.publish()
}

// publish shows the machine's figures to other goroutines.
func (p *owned) publish() {
	s := p.m.Stats()
	if old := p.stats.Load(); old == nil || *old != s {
		p.stats.Store(&s)
	}
	if s.InFlight == 0 && p.draining() {
		select {
		case <-p.quiet:
		default:
			close(p.quiet)
		}
	}
}

func (p *owned) draining() bool {
	select {
	case <-p.e.drain:
		return true
	default:
		return false
	}
}

// refuse answers mail for which there is no term.
func (p *owned) refuse(in mail) {
	for _, c := range in.calls {
		c.fail(unavailable(p.cause))
	}
	p.postpone(in)
}

// poll does, once a second, what no event brings up: runs that find no consumer or no room are parked, and the history is
// swept.
func (p *owned) poll(now int64) {
	if now-p.polled < int64(pollEvery) {
		return
	}
	p.polled = now
	p.park(now)
	p.askAfterEdges(now)
	p.m.AwaitTokens()
	clear(p.moved)
	if now-p.swept >= int64(sweepEvery) {
		if p.swept != 0 {
			p.m.Sweep(now)
			p.sweepBackfills(now)
		}
		p.swept = now
	}
}

// end makes the last batches durable and leaves.
func (p *owned) end() {
	p.finishCommits()
	left := p.box.close()
	close(p.commits)
	closed := carillon.Errorf(carillon.Unavailable, "", "the node is shutting down")
	for _, c := range left.calls {
		c.fail(closed)
	}
	for _, w := range p.waiting {
		w.answer(closed)
	}
}

// finishCommits writes what memory knows better than the store: attempts in force, and every batch.
func (p *owned) finishCommits() {
	if p.m != nil {
		p.m.KeepGrants()
	}
	for p.m != nil {
		p.commit()
		if !p.inFlight {
			return
		}
		<-p.box.bell
		in := p.box.take()
		for _, c := range in.committed {
			p.settled(c, p.e.now())
		}
		in.committed = nil
		p.refuseAtEnd(in)
	}
}

func (p *owned) refuseAtEnd(in mail) {
	for _, c := range in.calls {
		c.fail(carillon.Errorf(carillon.Unavailable, "", "the node is shutting down"))
	}
}

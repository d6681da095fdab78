package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/permit"
	"github.com/carillonhq/carillon/server/store"
)

// Dispatcher hands attempts to consumers and knows how many they will take. Calls do not block.
type Dispatcher interface {
	// Offer adds to the slots that partition p has of each queue in which its runs wait, until they are Now.
	// If p gets fewer and the queue is served, it waits for the rest, which comes by Sink.Slots.
	Offer(p delivery.Owner, lineup []delivery.Waiting)
	// Deliver sends attempts of partition p in its slots, and says what is left of these slots and of the
	// runs that wait for more. The slices are not kept.
	Deliver(p int, ds []delivery.Delivery, rest []delivery.Rest)
	// Awaited says of queues how many attempts of partition p a consumer at a broker completes, in place of what
	// was said before. It is told of attempts that are made before Deliver is. The slice is not kept.
	Awaited(p int, all []delivery.Awaited)
	// Cancel tells the consumers of the attempts to stop.
	Cancel(cs []delivery.Cancel)
	// Forget drops what is known of a partition that has left this node.
	Forget(p int)
	// SetPaused names the paused queues, in place of those before. Once it has returned, no attempt of them
	// leaves this node.
	SetPaused(paused []delivery.Queue)
}

// Config configures an engine.
type Config struct {
	Store  store.Store
	Node   string           // this node's id among the members; default "local"
	Now    func() time.Time // wall clock; default time.Now; a simulation may skew it
	Log    *slog.Logger     // default: discard
	Limits carillon.Bounds  // default carillon.DefaultBounds
	// Source of uids and generated names; safe for concurrent use; default crypto/rand; a simulation seeds
	// it.
	Random io.Reader

	WindowJobs int           // most jobs in memory, over all partitions; default 100,000
	LeaseTTL   time.Duration // of partitions; default 15 s
	Partition  partition.Config
	Events     Events
	// CatchUpRate bounds how many runs a second leave that became due while the store was away, but for
	// critical ones; 0: any number.
	CatchUpRate int
	// FireCritical: critical runs in memory leave although the store does not answer, until the lease of
	// their partition ends. Otherwise nothing does.
	FireCritical bool

	// Lanes is how many goroutines run the partitions; a partition always belongs to the same one. The
	// partitions of a lane are made durable together, on a store that commits batches of several partitions
	// at about the cost of one (see [store.Grouper]) and has one committer anyway; default one lane. On
	// another store each partition has a lane, so that none waits for the store's answer to another. See
	// docs/decisions/0023.
	Lanes int
	// Standby: the engine owns nothing until Assign is called. Otherwise Start claims every partition.
	Standby bool
	// Peers reaches the owners of partitions that this node does not own; nil if it is alone.
	Peers message.Partitions
	// MayClaim, if not nil, reports whether it was confirmed after since, and still holds, that this process
	// is the node of its name. Another process may have taken its place while this one was suspended. It must
	// not block.
	MayClaim func(since time.Time) bool
	// Announce, if not nil, is called when settings of a namespace have become durable here: every other node
	// is to call [Engine.ReloadNamespace]. It must not block. A lost announcement heals within 5 s.
	Announce func(namespace string)
	// AnnounceLimits, if not nil, is called when the limits have changed that sidecars of this node have named:
	// every other node is to call [Engine.HearLimits] with them. It must not block.
	AnnounceLimits func()

	// Supports, if not nil, returns an error about a target of a kind that this program cannot deliver to.
	Supports func(t *carillon.Target) error
	// Secrets, if not nil, returns an error about a header that refers to a secret which jobs of the namespace
	// may not send to the target.
	Secrets func(namespace string, t *carillon.HTTPTarget) error
	// Advise, if not nil, returns a warning for the answer to a put if something prevents runs of the queue
	// now; "" if nothing does. It must not block.
	Advise func(q delivery.Queue) (warning string)

	// Consumers returns who takes the runs of a queue, for reads that say why a run waits. It may ask other
	// nodes. Nil: nobody is known.
	Consumers func(ctx context.Context, q delivery.Queue) delivery.Consumers

	ToStore

	// Turn, if not nil, is called on a lane's goroutine before the lane checks whether a partition wants a
	// round, and with its first partition before it checks what must be read. A simulation blocks in it until
	// it is the partition's turn, so that events of one instant always happen in the same order.
	Turn func(partition int)
	// Enter, if not nil, is called on a caller's goroutine and without locks: before its call goes to a
	// partition, before random bytes are drawn for it (partition -1), and before a batch tries to store a
	// share. of is the id of the batch, if it is for one. Calls that waited for the same event come at one
	// instant. A simulation delays each in Enter by a different time, so that they always come in the same
	// order.
	Enter func(ctx context.Context, partition int, of string)
}

// ToStore is what is between the engine and its store.
type ToStore struct {
	// Encryption encrypts what goes to the store and decrypts what comes from it. Nil: nothing is encrypted.
	Encryption Encryption
	// Way, if not nil, returns the way of a lane's groups to the store, which ends at to. It is called once for
	// each lane. What is on it is encrypted already.
	Way func(to store.Submitter) Way
}

// Events are called when something happens. Any may be nil; they must not block.
type Events struct {
	partition.Events
	Scheduled func(n int)                                      // jobs put
	Committed func(records int, took time.Duration, err error) // one batch

	// A partition is owned after Start; took: to claim and load it.
	Owned func(partition int, took time.Duration)
	Lost  func(partition int) // a partition's term was lost
	// A partition was handed over; took: until all was durable.
	HandedOver func(partition int, took time.Duration)
	// QuotaRefused is called for a change of a job that a quota of its namespace refuses, with the name of the
	// quota: jobs, payload_bytes or puts.
	QuotaRefused func(namespace, quota string)
	// Reports for an owner that refuses them for good or does not exist.
	Dropped func(n int)
	// Recorded: an audit entry is durable, with its key and its hash. It may take its time, but if it takes too
	// long for too many of them, it is not called for some, and the log says for how many.
	Recorded func(key string, e *store.AuditEntry, hash []byte)
	ReachEvents
}

func (c Config) withDefaults() Config {
	if c.Turn == nil {
		c.Turn = func(int) {}
	}
	if c.Enter == nil {
		c.Enter = func(context.Context, int, string) {}
	}
	if c.Consumers == nil {
		c.Consumers = func(context.Context, delivery.Queue) delivery.Consumers { return delivery.Consumers{} }
	}
	c.Node = cmp.Or(c.Node, "local")
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Limits = cmp.Or(c.Limits, carillon.DefaultBounds())
	c.Random = cmp.Or(c.Random, rand.Reader)
	c.WindowJobs = cmp.Or(c.WindowJobs, 100_000)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, 15*time.Second)
	return c
}

// now returns the node's clock, UTC ns.
func (c *Config) now() int64 { return c.Now().UnixNano() }

// Engine runs the partitions of one node. It starts, wires and stops what the other files are about.
type Engine struct {
	*partitions // all of the store; answers [message.Partitions]
	*api        // answers callers
	*census     // answers metrics
	*namedLimits
	*watches // answers watchers
	home
	*reach // answers whether the store does

	settings     *settings
	dependencies *dependencies
	batches      *batches
	cfg          Config
	dispatcher   Dispatcher
	lanes        []*lane
	wg           sync.WaitGroup     // of the lanes' goroutines
	endLife      context.CancelFunc // at Stop: lanes make their last batches durable and end
	serving      context.Context    // ends with Drain: no new attempts
	drain        context.CancelFunc
	ownershipLog ownershipLog
	deadLog      deadLog
	clock        time.Time // zero point of Engine.elapsed
	limiter      *limiter
	claims       *claims
	loads        chan struct{} // semaphore of concurrent loads
	renewNow     bell          // leases are to be renewed at once
	assigning    sync.Mutex    // held by Assign
}

// api is what the engine does for callers: [carillon.Jobs], [carillon.Runs], [carillon.Backfills],
// [carillon.Namespaces], [carillon.Calendars], and its part of [carillon.Queues].
type api struct {
	*jobs
	*runs
	*backfills
	*namespaces
	*queues
	*calendars
	*quotas
	keys
	audits
}

// New makes an engine; Start runs it.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	life, endLife := context.WithCancel(context.Background())
	e := &Engine{
		cfg: cfg, clock: time.Now(), endLife: endLife,
		partitions: &partitions{store: cfg.Store, sealer: cfg.Encryption, peers: cfg.Peers,
			macKey:   cfg.Store.Meta().MACKey,
			settings: settingsPeriod(cfg.LeaseTTL),
			now:      cfg.now, log: cfg.Log, life: life},
		claims: &claims{bell: newBell()}, loads: newLoads(cfg.Store), renewNow: newBell(),
	}
	e.serving, e.drain = context.WithCancel(context.Background())
	e.ownershipLog.log, e.deadLog.log = e.log, e.log
	e.settings = newSettings()
	e.partitions.calendars = e.settings.dates
	e.dependencies = &dependencies{partitions: e.partitions,
		notices: peerQueue{peers: cfg.Peers, life: life, running: &e.wg}}
	e.batches = &batches{cfg: &e.cfg, partitions: e.partitions, dependencies: e.dependencies,
		live: map[string]chan struct{}{}, reported: map[int]store.Term{}}
	quotas := newQuotas(e.partitions, e.settings, e.elapsed, e.batches.run, cfg.Events.QuotaRefused)
	quotas.homes = &quotaHomes{partitions: e.partitions, settings: e.settings, elapsed: e.elapsed,
		run: e.batches.run, all: map[string]*quotaHome{}}
	e.batches.quotas = quotas
	e.limiter = &limiter{partitions: e.partitions, limitOf: e.LimitOf,
		c: permit.NewCounter(e.LimitOf, e.sendPermits)}
	queues := newQueues(e.partitions, e.log)
	holds := &holds{cfg: &e.cfg, partitions: e.partitions, limiter: e.limiter, rateOf: e.settings.rate,
		paused: queues.PausedQueues}
	e.api = &api{
		jobs: &jobs{cfg: &e.cfg, partitions: e.partitions, settings: e.settings, dependencies: e.dependencies,
			batches: e.batches, holds: holds, quotas: quotas},
		runs:      &runs{e.partitions, holds, quotas},
		backfills: &backfills{e.partitions, cfg.Now},
		namespaces: &namespaces{partitions: e.partitions, settings: e.settings, cfg: &e.cfg,
			quotas: quotas.homes, missed: newBell()},
		queues:    queues,
		calendars: &calendars{e.partitions, e.settings},
		quotas:    quotas,
		keys:      keys{e.partitions},
		audits:    audits{e.partitions, &auditLog{log: e.log, told: cfg.Events.Recorded}},
	}
	e.reach = &reach{now: cfg.Now, told: cfg.Events.ReachEvents,
		catchUp: newCatchUp(cfg.CatchUpRate, e.elapsed, e.whole)}
	e.namedLimits = newNamedLimits(&e.cfg, e.elapsed, e.limiter.limitsChanged)
	e.watches, e.home = newWatches(&e.cfg, e.partitions), home{e.partitions}
	e.census = &census{partitions: e.partitions, holdings: e.Holdings, elapsed: e.elapsed}
	return e
}

// Start claims every partition, unless the engine is on standby, and starts its goroutines, which end with
// Stop. If Start fails nothing is left claimed.
func (e *Engine) Start(ctx context.Context, d Dispatcher) error {
	e.dispatcher, e.queues.setPaused = d, d.SetPaused
	err := e.makeLanes()
	if err == nil {
		err = e.prepare(ctx)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin) // ctx may be why
		defer cancel()
		return errors.Join(err, e.Stop(ctx))
	}
	e.wg.Go(e.claimer)
	for _, l := range e.lanes {
		e.wg.Go(l.run)
		if l.applier != nil {
			e.wg.Go(l.applier.run)
		}
		e.wg.Go(l.lookUp)
	}
	if c, ok := e.store.(store.Counter); ok {
		e.wg.Go(func() { e.census.run(c) })
	}
	e.wg.Go(e.keep)
	return nil
}

// undoWithin bounds the end of an engine that could not be started.
const undoWithin = 10 * time.Second

// prepare reads settings and claims partitions, before anything runs.
func (e *Engine) prepare(ctx context.Context) error {
	if e.cfg.Peers != nil {
		if err := e.namespaces.readAll(ctx); err != nil {
			return fmt.Errorf("settings of namespaces: %w", err)
		}
		e.wg.Go(e.followSettings)
	}
	if e.cfg.Standby {
		return nil
	}
	return e.claimAll(ctx)
}

// makeLanes makes the lanes and their partitions.
func (e *Engine) makeLanes() error {
	n := e.store.Meta().Partitions
	for range e.cfg.lanesOf(n) {
		e.lanes = append(e.lanes, newLane(e))
	}
	for i := range n {
		l := e.lanes[i%len(e.lanes)]
		reader, err := e.shardOf(i, store.Term{})
		if err != nil {
			return err
		}
		p := newPartitionRunner(l, i, reader)
		p.own.wanted.Store(!e.cfg.Standby)
		l.parts, e.parts, e.shards = append(l.parts, p), append(e.parts, p), append(e.shards, reader)
	}
	return nil
}

// claimAll claims every partition.
func (e *Engine) claimAll(ctx context.Context) error {
	for _, p := range e.parts {
		p.own.claim(0)
	}
	terms, err := e.claim(ctx, e.parts)
	if err != nil {
		return err
	}
	e.open(terms)
	var all sync.WaitGroup
	for l, ofLane := range byLane(terms) { // concurrently, so that a slow store does not use up the leases
		all.Go(func() { l.announce(ctx, ofLane) })
	}
	all.Wait()
	for _, t := range terms {
		switch {
		case errors.Is(t.err, store.ErrDamaged):
			t.p.abandon()
			t.p.standStill(t)
		case t.err != nil:
			return t.err
		default:
			t.p.begin(t)
		}
	}
	return nil
}

// Drain stops handing out attempts and waits until those in force have ended, or ctx is done. Calls are still
// served.
func (e *Engine) Drain(ctx context.Context) error {
	e.drain()
	for _, p := range e.parts {
		p.box.ring()
	}
	for _, p := range e.parts {
		select {
		case <-p.drained:
			p.drained.ring() // for another call
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Stop makes everything in flight durable, ends the partitions and releases them. Calls are refused from here
// on. If the store hangs, Stop ends with ctx, and its error names the partitions that still wait for the
// store.
func (e *Engine) Stop(ctx context.Context) error {
	e.endLife()
	for _, l := range e.lanes {
		l.ring()
	}
	ended := make(chan struct{})
	go func() {
		e.wg.Wait()
		e.batches.end()
		e.watches.tail.close()
		e.ownershipLog.flush()
		e.deadLog.flush()
		e.audits.lines.flush()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return e.hanging(ctx.Err())
	}
	_, releases := e.claims.take()
	for _, p := range e.parts {
		if term, ok := p.lease.held(); ok {
			releases = append(releases, p.pendingRelease(term))
		}
	}
	if err := e.releaseNow(ctx, releases); err != nil {
		return fmt.Errorf("release partitions: %w", err)
	}
	return nil
}

// stopping reports whether Stop has been called.
func (e *Engine) stopping() bool {
	return e.life.Err() != nil
}

// hanging returns the error of a Stop that was given up: what the node still waits for.
func (e *Engine) hanging(cause error) error {
	var writes []string
	for _, p := range e.parts {
		if since := p.figures.writing.Load(); since != 0 {
			writes = append(writes, fmt.Sprintf("partition %d for %v", p.number,
				time.Duration(e.elapsed()-since).Round(time.Millisecond)))
		}
	}
	if len(writes) == 0 {
		return fmt.Errorf("stop: the partitions have not ended: %w", cause)
	}
	return fmt.Errorf("stop: the store has not answered writes: %s: %w", strings.Join(writes, ", "), cause)
}

func (e *Engine) now() int64 { return e.cfg.now() }

// Stats returns what is in memory, summed over all partitions.
func (e *Engine) Stats() partition.Stats {
	var sum partition.Stats
	for _, p := range e.parts {
		if s := p.figures.stats.Load(); s != nil {
			sum.Resident += s.Resident
			sum.Bytes += s.Bytes
			sum.InFlight += s.InFlight
			sum.Backfills += s.Backfills
		}
	}
	return sum
}

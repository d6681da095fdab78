package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/bulk"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/httptarget"
	"github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/follow"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/payload"
	"github.com/carillonhq/carillon/server/internal/telemetry"
	"github.com/carillonhq/carillon/server/internal/tracing"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// Node is a running scheduler in this process, without listeners. Start puts its parts together:
//
//	store    keeps the jobs; its URL says which kind it is
//	sealer   encrypts what goes into the store, if there are keys (encryption.go)
//	payloads keeps large payloads apart, if there is a place for them (payloads.go)
//	engine   owns partitions and fires their jobs
//	brokers  are the message brokers that runs may be sent to (brokers.go)
//	secrets  are what headers of HTTP targets may refer to (secrets.go)
//	hub      brings attempts to consumers: workers that connect, HTTP targets and brokers
//	member   the node's place among the nodes of a cluster (cluster.go)
//	calls    where a call goes: to the engine, or by the member's router to the partition's owner
//
// [Server] (server.go) adds the listeners: gRPC, REST, Dapr's sidecars, other nodes, metrics.
type Node struct {
	config   Config
	store    store.Store
	sealer   *encryption    // nil: nothing is encrypted
	tap      *follow.Tap    // between the engine and the store
	payloads *payload.Store // nil: there is none
	brokers  *brokers
	secrets  *secretSet
	trouble  *trouble
	engine   *engine.Engine
	hub      *dispatch.Hub
	queues   *ownQueues
	metrics  *telemetry.Metrics
	tracer   *tracing.Tracer // nil: no traces are made
	member   *cluster.Node   // nil: the node is alone
	cluster  carillon.Cluster
	unfollow func()                    // ends followNodes; nil: the node is alone
	endHome  func()                    // ends keepHome
	endFeeds func(ctx context.Context) // ends the feeds
	calls    calls
	leaving  atomic.Bool
	keeper   *keeper                         // of API keys; nil: callers show none
	callers  *callers                        // with other credentials; nil: there are none
	trail    *trail                          // of who makes calls; nil: there is none
	settler  atomic.Pointer[cluster.Settler] // see OnSettle
}

// startTimeout bounds the opening of the store and the claim of the partitions; it is longer than a lease.
const startTimeout = 30 * time.Second

// Start opens the store and starts a node. End it with [Node.Close]. Calls go to the engine or, in a cluster,
// to the router, as enter in cluster.go decides; listeners are put on top by server.go.
func Start(ctx context.Context, c Config) (*Node, error) {
	if c.unreachable() && isShared(c.Store) {
		c.Name = cmp.Or(c.Name, embeddedName)
	}
	c = c.withDefaults()
	if err := c.validateNode(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	n := &Node{config: c, trouble: newTrouble(&c), metrics: telemetry.New(c.Monitoring.Version)}
	var err error
	if n.tracer, err = newTracer(ctx, &c, n.metrics); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.endTraces())
	}
	return n, nil
}

// start opens the store and puts the parts together; see [Start].
func (n *Node) start(ctx context.Context) error {
	c := n.config
	var err error
	o := store.Options{Partitions: c.Partitions, Now: c.Now, Events: n.trouble.events(), Log: c.Log}
	if n.store, err = c.hooks.open(ctx, c.Store, o); err != nil {
		return err
	}
	if err := transfer.Usable(ctx, n.store); err != nil {
		return errors.Join(slowToOpen(err), n.store.Close())
	}
	if n.sealer, err = openEncryption(ctx, &c, n.store); err != nil {
		return errors.Join(err, n.store.Close())
	}
	if err := n.openPayloads(ctx); err != nil {
		return errors.Join(err, n.closeStores())
	}
	if n.brokers, err = openBrokers(&c.Targets.Brokers, c.Log); err != nil {
		return errors.Join(err, n.closeStores())
	}
	if n.secrets, err = openSecrets(&c.Targets, c.Log); err != nil {
		return errors.Join(err, n.brokers.close(), n.closeStores())
	}
	n.checkPartitions()
	n.tap = follow.NewTap(n.store.Meta().Partitions)
	n.queues = &ownQueues{node: c.Name}
	n.join()
	e := engine.Config{
		Store: n.store, Node: c.Name, Now: c.Now, Log: c.Log, Limits: c.Limits, WindowJobs: c.WindowJobs,
		Events: n.engineEvents(),
		Partition: partition.Config{DeadRetention: c.DeadRetention, Tracer: n.attemptTracer(),
			AuditKeep: c.Audit.Keep},
		Advise:    func(q delivery.Queue) string { return n.hub.Advise(q) }, // no call comes before there is a hub
		Supports:  n.brokers.supports,
		Secrets:   n.secrets.check(),
		Consumers: n.queues.consumers, LeaseTTL: c.LeaseTTL,
		ToStore: engine.ToStore{Encryption: n.sealer.sealer(),
			Way: func(to store.Submitter) engine.Way { return n.tap.Line(to) }},
		CatchUpRate: c.Outages.CatchUpRate, FireCritical: c.Outages.FireCritical,
	}
	h := dispatch.Options{
		Accept:     worker.Accept(worker.Options{}),
		Transports: map[string]dispatch.Transport{"http": httptarget.New(n.httpOptions())},
		SlowStart:  dispatch.SlowStart{Initial: c.SlowStart.Initial, Step: c.SlowStart.Step},
		Now:        c.Now,
	}
	n.brokers.addTransports(h.Transports, n.payloads, c.Now)
	if n.member != nil {
		e.Standby, e.Peers, e.Announce, e.MayClaim = true, n.member.Router(), n.member.Announce, n.member.MayClaim
		e.AnnounceLimits, n.queues.elsewhere = n.member.AnnounceLimits, n.member.ConsumersElsewhere
		h.Arrival = cmp.Or(c.hooks.arrival, arrival)
	}
	n.engine = engine.New(e)
	n.hub = dispatch.New(n.engine, h)
	n.queues.hub, n.queues.backlog, n.queues.paused = n.hub, n.engine.Backlog, n.engine.PausedQueues
	if err := n.engine.Start(ctx, n.hub); err != nil {
		return errors.Join(slowToOpen(err), n.hub.Close(), closeClients(n), n.closeStores())
	}
	if err := n.enter(ctx); err != nil {
		return errors.Join(slowToOpen(err), n.Stop(), n.closeStores())
	}
	n.metrics.Watch(telemetry.Sources{
		Queues: n.hub.Queues, Workers: n.hub.Workers, Load: n.load,
		Limits: n.limits, Rates: func() []telemetry.Rate { return ratesOf(n.engine) },
		Backlog: n.engine.Backlog, Dead: n.engine.Dead, Missing: n.engine.Missing,
		Jobs: n.engine.JobsByPhase, Now: c.Now,
		Backfills:  func() int { return n.engine.Stats().Backfills },
		Partitions: n.partitions, Trouble: n.trouble.Lasts,
		Damaged: n.trouble.DamagedTables, Requests: n.requests,
	})
	keepTrail(n)
	if err := errors.Join(slowToOpen(keepKeys(ctx, n)), followCallers(n)); err != nil {
		return errors.Join(err, n.Stop(), n.leave())
	}
	n.endHome = n.keepHome()
	n.endFeeds = startFeeds(n)
	return nil
}

// slowToOpen marks the error of a first call of the store for which there was no time: its server has
// answered when it was opened, and does not now. A node waits for it as if it had not answered at all, and
// starts again from the beginning, so whoever returns such an error leaves nothing running.
func slowToOpen(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return store.Away(err)
	}
	return err
}

// requests is how many the store has made, if they cost money.
func (n *Node) requests() (reads, writes int64) {
	if m, ok := n.store.(store.Meter); ok {
		return m.Requests()
	}
	return 0, 0
}

// httpOptions returns the options of HTTP targets. The signing secrets have been validated.
func (n *Node) httpOptions() httptarget.Options {
	c := &n.config
	secrets, _ := c.secrets()
	var named httptarget.Secrets // nil: references are texts like others
	if c.Targets.Secrets.File != "" {
		named = n.secrets
	}
	return httptarget.Options{
		Named:     named,
		Around:    n.aroundRequests(),
		Payloads:  n.payloads,
		HostLimit: c.Targets.HostLimit, Allow: c.Targets.Allow, Now: c.Now,
		Secrets: func(namespace string) [][]byte { return secrets[namespace] },
	}
}

// limits returns how the limits of concurrency keys stand.
func (n *Node) limits() []telemetry.Limit {
	uses := n.engine.LimitUses()
	all := make([]telemetry.Limit, len(uses))
	for i, u := range uses {
		all[i] = telemetry.Limit(u)
	}
	return all
}

// ratesOf returns how the rates stand.
func ratesOf(e *engine.Engine) []telemetry.Rate {
	uses := e.RateUses()
	all := make([]telemetry.Rate, len(uses))
	for i, u := range uses {
		all[i] = telemetry.Rate(u)
	}
	return all
}

// partitions returns how many partitions the node owns, and how many there are.
func (n *Node) partitions() (owned, all int) {
	return len(n.engine.Holdings()), n.store.Meta().Partitions
}

// scheduler is the engine and the hub as one [carillon.Scheduler].
type scheduler struct {
	carillon.Jobs
	carillon.Runs
	carillon.Bulk
	carillon.Backfills
	carillon.Namespaces
	carillon.Events
	carillon.Calendars
	carillon.Timetables
	carillon.Payloads
	carillon.Work
}

// Scheduler returns the node's scheduler for callers in this process. Attempts are durable before their
// workers get them, since a worker may end the process.
func (n *Node) Scheduler() carillon.Scheduler { return n.schedulerWith(n.relayed(n.hub.Local())) }

func (n *Node) schedulerWith(work carillon.Work) carillon.Scheduler {
	edge := n.edge()
	return scheduler{Jobs: edge.Jobs(n.calls), Runs: edge.Runs(n.calls, n.calls), Backfills: n.calls,
		Namespaces: n.calls, Events: n.engine, Calendars: n.calls, Timetables: n.calls,
		Payloads: storedPayloads{n.payloads, n.sealer.records(n.store)},
		Work:     work, Bulk: bulk.Actions{Calls: n.calls, Bounds: n.config.Limits}}
}

// Cluster returns the cluster that the node belongs to, even if it is alone.
func (n *Node) Cluster() carillon.Cluster { return n.cluster }

// Metrics returns the node's metrics.
func (n *Node) Metrics() *telemetry.Metrics { return n.metrics }

// Ready returns nil if the node can serve, otherwise why not.
func (n *Node) Ready() error {
	if n.leaving.Load() {
		return errors.New("the node is leaving")
	}
	if err := n.trouble.Err(); err != nil {
		return err
	}
	if err := n.trouble.Damage(); err != nil {
		return err
	}
	if n.member != nil {
		return n.member.Ready()
	}
	return n.engine.Ready()
}

// Drain stops dispatch, tells workers to connect elsewhere and waits until the attempts in force have ended
// or ctx is done; then requests to HTTP targets are ended by force. Calls and results are still accepted. In
// a cluster the partitions are handed over meanwhile.
func (n *Node) Drain(ctx context.Context) error {
	n.leaving.Store(true)
	ctx, end := n.whileStored(ctx)
	defer end()
	var feeds sync.WaitGroup
	feeds.Go(func() { n.endFeeds(ctx) })
	defer feeds.Wait()
	requests := make(chan error, 1)
	go func() { requests <- n.hub.Drain(ctx) }()
	if n.member == nil {
		return n.drainAlone(ctx, requests)
	}
	given, release := n.whileStored(context.WithoutCancel(ctx)) // it gets its full time
	n.handOver(given)
	release()
	// The engine relays the last reports of consumers to the new owners, so it is the last to be quiet.
	ended, idle := <-requests, n.awaitConsumers(ctx)
	return errors.Join(ended, idle, n.giveBack(ctx))
}

// goneFor is how long a node that leaves waits for consumers that have gone with an attempt.
const goneFor = 2 * time.Second

// errGone is why a node leaves although attempts are in force.
var errGone = errors.New("who has them is not connected: they report to the next start, or their leases end")

// drainAlone waits until no attempt is in force, or nobody who is connected has one and no request is
// under way. What its worker has lost its connection with, or an HTTP target is to complete later, may
// take until the end of its lease, and is as well off with the next start.
func (n *Node) drainAlone(ctx context.Context, requests <-chan error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- n.engine.Drain(ctx) }()
	look := time.NewTicker(idleLook)
	defer look.Stop()
	var of error // of the requests
	under, idle := true, time.Now()
	for {
		select {
		case of = <-requests:
			under = false
		case err := <-ended:
			if under {
				of = <-requests
			}
			if cause := context.Cause(ctx); errors.Is(cause, errGone) {
				err = cause
			}
			return errors.Join(err, of)
		case <-look.C:
			if under || n.inFlight() > 0 {
				idle = time.Now()
			} else if time.Since(idle) >= goneFor {
				cancel(errGone)
			}
		}
	}
}

// giveBackTimeout is how long the new owners are told what sidecars had, also when the grace is over.
const giveBackTimeout = 2 * time.Second

// giveBack ends the streams of sidecars, waits until the new owners have heard of what they still had, and of
// all other reports. Otherwise those runs would wait until nothing was heard of their streams for a while.
func (n *Node) giveBack(ctx context.Context) error {
	if !n.hub.EndStreams() {
		return n.engine.Drain(ctx)
	}
	if err := n.engine.Drain(ctx); err == nil {
		return nil
	}
	told, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	return n.engine.Drain(told)
}

// stopTimeout bounds the end of a node after its attempts have ended, or were given up.
const stopTimeout = 10 * time.Second

// Stop makes durable what is on its way and ends the sessions. From then on calls are refused. Attempts in
// force stay with their workers, which report to the node's next life.
func (n *Node) Stop() error {
	n.leaving.Store(true)
	n.keeper.close()
	n.callers.close()
	if n.endHome != nil {
		n.endHome()
	}
	if n.unfollow != nil {
		n.unfollow()
	}
	ctx, cancel := n.stopping()
	defer cancel()
	if n.endFeeds != nil {
		n.endFeeds(ctx)
	}
	n.trail.close(ctx)
	n.finish(ctx)
	return errors.Join(n.engine.Stop(ctx), n.hub.Close(), closeClients(n))
}

// closeClients ends what the transports use, after they have been closed.
func closeClients(n *Node) error {
	n.secrets.close()
	return n.brokers.close()
}

// Close drains until ctx is done, stops, and closes the store. Attempts still in force are not an error.
func (n *Node) Close(ctx context.Context) error {
	n.drainAndLog(ctx)
	return errors.Join(n.Stop(), n.leave())
}

// drainAndLog calls Drain and logs what is left over.
func (n *Node) drainAndLog(ctx context.Context) {
	if err := n.Drain(ctx); err != nil {
		n.config.Log.Warn("left while attempts were in force", "attempts", n.engine.Stats().InFlight, "reason", err)
	}
}

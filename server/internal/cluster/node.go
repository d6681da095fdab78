package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/health"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/queues"
	"github.com/carillonhq/carillon/server/store"
)

// Services is what a node does for callers, and for the partitions of other nodes.
type Services interface {
	carillon.Jobs
	carillon.Runs
	carillon.Backfills
	carillon.Namespaces
	carillon.Calendars
	carillon.Timetables
	message.Partitions
}

// Local is the engine of this node. It answers for what it owns and refuses the rest with
// [message.ErrNotOwner]. It may answer GetJob, ListTimes and
// GetRun from the store.
type Local interface {
	Services
	queueControl
	assignee
	// Failing returns, by partition, what it is to own and fails to claim, to load or to write.
	Failing() []health.Failure
	// Outage returns how long ago it last lost most of its terms together; ever is false if it never has.
	Outage() (ago time.Duration, ever bool)
	// ReloadNamespace reads the settings of a namespace, because they have changed.
	ReloadNamespace(ctx context.Context, name string) error
	// OwnLimits returns the limits that sidecars of this node have named, and their version, 0 before the
	// first.
	OwnLimits() (limits []delivery.NamedLimit, version uint64)
	// HearLimits takes those of another node.
	HearLimits(table *message.LimitTable)
	// KeepLimits forgets those of the nodes that are no members.
	KeepLimits(member func(message.Process) bool)
}

// queueControl is what the engine does for [carillon.Queues], and does not tell other nodes of.
type queueControl interface {
	// PauseQueue and ResumeQueue return once the change is durable.
	PauseQueue(ctx context.Context, key carillon.QueueKey, note string) (carillon.QueuePause, error)
	ResumeQueue(ctx context.Context, key carillon.QueueKey) (carillon.QueuePause, error)
	PurgeQueue(ctx context.Context, key carillon.QueueKey, o carillon.PurgeOptions) (carillon.PurgeResult, error)
	// ReloadQueues reads which queues are paused, and returns once that is in force here.
	ReloadQueues(ctx context.Context) error
}

// Config configures a node's part in a cluster. The zero value of a field is its default, given here.
type Config struct {
	// Member is the node as others should see it. Capacity is set by the node itself. Default of the nonce:
	// random.
	Member store.Member
	// Store is shared by the nodes.
	Store store.Store
	// Dial returns a peer for another node. It does not wait for a connection.
	Dial func(store.Member) (Peer, error)
	// Exclusive: other nodes cannot reach this one, so it must be the only member. All such nodes have the
	// same name.
	Exclusive bool
	// Queues is what this node knows of queues and workers.
	Queues queues.Node
	// TTL is how long the leases of partitions are valid, and so how long the partitions of a dead node are
	// left alone. Default [DefaultTTL].
	TTL time.Duration
	// Settings should be the same on all nodes.
	Settings []Setting
	Now      func() time.Time // wall clock; default time.Now; a simulation may skew it
	Log      *slog.Logger     // default: discard
	Events   Events
	// Trouble returns for how long the node has not been able to write to the store, and why; nil if it can.
	// Default: it can.
	Trouble func() (lasts time.Duration, err error)
	// Enter, if not nil, is called before each try of a call, on its goroutine and without locks. Calls that
	// waited for the same owner try again at one instant. A simulation delays each in Enter by a different
	// time, so that they always go in the same order; see also Enter of [engine.Config].
	Enter func(ctx context.Context, partition int, of string)
}

// Events are called when something happens. Any may be nil; they must not block.
type Events struct {
	JoinFailed func()                   // the node could not write its heartbeat into the store
	Forwarded  func(took time.Duration) // a peer has done a call, or refused it
	Again      func()                   // a call has not found its partition's owner and is tried again
}

// pollGap is the least time between two reads of the members that calls have requested.
const pollGap = 50 * time.Millisecond

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	for c.Member.Nonce == 0 {
		c.Member.Nonce = rand.Uint64()
	}
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Member.Settings = settings(c.Settings)
	if c.Trouble == nil {
		c.Trouble = func() (time.Duration, error) { return 0, nil }
	}
	return c
}

// Node is this process's part in a cluster: it runs heartbeats and views, and brings the types together that
// know the parts. From a heartbeat to a share:
//
//	run ─→ heartbeat ─→ examine: fitness ← the engine's failures, proofs of the prover
//	           │
//	           ├─→ join: storeClock, self ← membership, fitness, suspicions ─→ Leaser.Join
//	           │
//	           └─→ poll: view ← Leaser.Members, Leaser.Owners ─→ share ─→ assignment ─→ engine
type Node struct {
	cfg    Config
	id     string
	log    *slog.Logger
	leaser store.Leaser
	parts  int
	local  Local // set by Start

	clusterQueues

	membership *membership
	heartbeats *heartbeats
	views      *views
	peers      *peers
	prover     *prover
	storeClock *storeClock
	announcer  *announcer
	limits     *limitsTeller
	settler    atomic.Pointer[Settler]
	clock      monotonic

	// Guarded by the turn of views.
	assignment  assignment
	suspicions  suspicions
	successors  *successors
	differences *settingsLog

	ctx    context.Context // for the loop's calls to the store
	cancel context.CancelFunc
	done   chan struct{} // closed when the loop has ended

	telling sync.WaitGroup // the goroutine of limits
}

var _ carillon.Cluster = (*Node)(nil)

// New makes a node's part in a cluster. It does nothing before [Node.Start]; until then the router refuses
// calls.
func New(c Config) *Node {
	c = c.withDefaults()
	n := &Node{
		cfg: c, id: c.Member.ID, log: c.Log, leaser: c.Store.Leaser(), parts: c.Store.Meta().Partitions,
		membership: newMembership(), clock: monotonic{time.Now()}, successors: newSuccessors(),
		differences: &settingsLog{log: c.Log}, done: make(chan struct{}),
	}
	n.clusterQueues = clusterQueues{n}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.views = newViews(n.parts)
	n.peers = newPeers(&c, n.views.poke, n)
	n.heartbeats = newHeartbeats(n.clock, c.TTL)
	n.storeClock = newStoreClock(n.leaser, n.clock, &c)
	n.announcer, n.limits = newAnnouncer(n.sendNames), newLimitsTeller()
	n.prover = &prover{
		store: c.Store, leases: n.leaser, node: n.id, ttl: c.TTL, clock: n.clock, log: n.log,
		fitness: newFitness(c.TTL), answering: n.answering, done: make(chan struct{}),
		publish: func(ctx context.Context) { _ = n.heartbeat(ctx) }, // it has logged its errors
	}
	return n
}

// Start makes the node a member and has the engine, which must be running, claim its share. It ends with
// [Node.Close]. If Start fails nothing is left running.
func (n *Node) Start(ctx context.Context, local Local) error {
	n.local, n.assignment.engine = local, local
	if err := n.begin(ctx); err != nil {
		close(n.done)
		close(n.prover.done)
		return errors.Join(err, n.Close(ctx))
	}
	go n.run()
	n.telling.Go(func() { n.tellLimits(n.ctx) })
	go n.prover.run(n.ctx, n.membership.closed)
	return nil
}

// Greet has the other nodes look at the members, now that this one can be reached. They would learn of it
// with their next heartbeats, at different times; sidecars are to hear of it from all at once.
func (n *Node) Greet(ctx context.Context) { n.peers.lookAll(ctx, n.views.load().members) }

// begin makes the node a member and gives it its first share.
func (n *Node) begin(ctx context.Context) error {
	if err := n.views.take(ctx); err != nil {
		return err
	}
	defer n.views.release()
	if err := n.enter(ctx); err != nil {
		return err
	}
	return n.poll(ctx)
}

// run keeps membership and view up to date until the node ends.
func (n *Node) run() {
	defer close(n.done)
	period := n.cfg.TTL / heartbeatParts
	next := time.Now().Add(period)
	due := time.NewTimer(period)
	defer due.Stop()
	beat := func() {
		if time.Now().Before(next) {
			return
		}
		_ = n.heartbeat(n.ctx) // it has logged its errors
		// A heartbeat that the store kept waiting stands for those that it delayed.
		for !next.After(time.Now()) {
			next = next.Add(period)
		}
		due.Reset(time.Until(next))
	}
	gap := time.NewTimer(0)
	defer gap.Stop()
	poked := n.views.poked
	for {
		select {
		case <-n.membership.closed:
			return
		case <-due.C:
			beat()
		case <-poked:
			beat() // first, if both are due: a look that the store keeps waiting must not delay a heartbeat
			_ = n.Look(n.ctx)
			poked = nil
			gap.Reset(pollGap)
		case <-gap.C:
			poked = n.views.poked
		}
	}
}

// heartbeat writes the node's heartbeat, and reads the members and owners.
func (n *Node) heartbeat(ctx context.Context) error {
	if err := n.views.take(ctx); err != nil {
		return err
	}
	defer n.views.release()
	switch n.membership.state() {
	case stateReplaced:
		return errReplaced
	case stateClosed:
		return errClosed
	}
	n.examine()
	if err := n.checkAlone(ctx); err != nil {
		return err
	}
	err := errors.Join(n.join(ctx), n.poll(ctx))
	if err != nil {
		return err
	}
	if ousted(&n.cfg, n.views.load().members) {
		return n.withdraw(ctx)
	}
	n.suspect()
	return nil
}

// examine looks at what the engine fails on. The caller holds the turn.
func (n *Node) examine() {
	failing, serves := n.local.Failing(), n.assignment.held()
	for _, x := range failing {
		delete(serves, x.Partition)
	}
	begun := n.prover.fitness.watch(failing, serves, n.clock.elapsed(), n.answering())
	if len(begun) > 0 {
		n.log.Warn("this node cannot serve partitions of its share: others own them for a while", "node",
			n.id, "partitions", len(begun),
			"partition", begun[0].Partition, "reason", begun[0].Err)
	}
}

// suspect looks for partitions that other nodes do not take although they should. The caller holds the turn.
func (n *Node) suspect() {
	v, before := n.views.load(), n.suspicions.published()
	if !n.suspicions.update(v, n.id, n.clock.elapsed(), n.answering(), n.cfg.TTL) {
		return
	}
	for id, parts := range n.suspicions.published() {
		if len(before[id]) == 0 {
			n.log.Warn("a node lives and does not take its share of the partitions: others own it for a while", "node",
				id, "partitions", len(parts), "partition", parts[0])
		}
	}
	n.assign(v)
}

// answering returns since when the store has answered everything: see [heartbeats].
func (n *Node) answering() time.Duration { return n.heartbeats.answering(n.local.Outage()) }

// Look implements [Control]. It is heartbeat without writing one. A caller that waited for the turn while
// another look began shares the result of that one: however many look at once, the store is asked twice, and
// the next heartbeat is not delayed.
func (n *Node) Look(ctx context.Context) error {
	since := n.clock.elapsed()
	if err := n.views.take(ctx); err != nil {
		return err
	}
	defer n.views.release()
	if n.views.asked > since {
		return nil
	}
	return n.poll(ctx)
}

// poll reads a new view and acts on it. The caller holds the turn. If it fails the old view stays; what the
// node owns depends on its leases, not on the view.
func (n *Node) poll(ctx context.Context) error {
	began := n.clock.elapsed()
	v, err := n.readView(ctx)
	if err != nil {
		if ctx.Err() == nil {
			n.log.Debug("the members and owners could not be read", "error", err)
		}
		return fmt.Errorf("who is in the cluster: %w", err)
	}
	n.heartbeats.read(v, began)
	n.askSuccessors(ctx, v)
	before := n.views.replace(v, began)
	n.assign(v)
	logChanges(n.log, n.id, before, v)
	n.differences.compare(v.members)
	n.peers.keep(v.members)
	n.announcer.welcome(before.members, v.members)
	n.limits.welcome(before.members, v.members)
	n.keepLimits(v)
	return nil
}

func (n *Node) readView(ctx context.Context) (*view, error) {
	ctx, cancel := oneAnswer(ctx, n.cfg.TTL)
	defer cancel()
	members, err := n.leaser.Members(ctx)
	if err != nil {
		return nil, err
	}
	owners, err := n.leaser.Owners(ctx)
	if err != nil {
		return nil, err
	}
	return newView(members, owners, n.parts, n.storeClock.now()), nil
}

// assign tells the engine what it is to own, if that has changed. A node that finds itself missing among the
// members has not written its heartbeat for too long. It keeps the partitions that it has leases for, and its
// next heartbeat puts it back.
func (n *Node) assign(v *view) {
	if n.membership.state().over() {
		return
	}
	if me, here := v.member(n.id); !here || me.Nonce != n.cfg.Member.Nonce {
		return
	}
	share := n.share(v)
	if before, changed := n.assignment.set(share); changed {
		n.log.Info("the node's share of the partitions has changed",
			"partitions", len(share), "before", before, "of", n.parts, "nodes", len(v.members))
	}
}

// Silent returns how long the store has not answered. It is asked at least every quarter of the TTL.
func (n *Node) Silent() time.Duration { return n.heartbeats.silent() }

// StoreNow returns this node's best estimate of the store's clock, which is common to all nodes.
func (n *Node) StoreNow() time.Time { return n.storeClock.now() }

// MayClaim reports whether the node has written a heartbeat after since, and still counts as living.
// Otherwise another process may have its name. It is the MayClaim of [engine.Config].
func (n *Node) MayClaim(since time.Time) bool {
	return !n.membership.state().over() && n.heartbeats.after(since)
}

// Replaced is closed when another process has taken this node's name: this one owns nothing any more and
// should end.
func (n *Node) Replaced() <-chan struct{} { return n.membership.replaced }

// Ready returns an error that says why the node does not take part; nil if it does.
func (n *Node) Ready() error {
	state, skew := n.membership.state(), n.storeClock.skew()
	switch age := n.heartbeats.age(); {
	case state == stateReplaced:
		return errReplaced
	case state.departs():
		return errors.New("the node is leaving the cluster")
	case age > n.cfg.TTL:
		return fmt.Errorf("the node could not tell the store for %v that it lives", age.Round(time.Millisecond))
	case skew.off:
		return fmt.Errorf("the node's clock is %v off the store's: it owns nothing",
			skew.ahead().Round(time.Millisecond))
	}
	switch fit, reason, refuses := n.prover.fitness.report(); {
	case !fit && reason != "":
		return fmt.Errorf("the node is unfit to own partitions: %s", reason)
	case len(refuses) > 0:
		return fmt.Errorf("the node cannot serve %d of its partitions: %s", len(refuses), reason)
	case !n.assignment.whole():
		return errors.New("the node does not own all of its partitions yet")
	}
	if lost := n.lost(); len(lost) > 0 {
		return fmt.Errorf("the node has lost %d of its partitions and does not own them again yet, such as %d",
			len(lost), lost[0])
	}
	return nil
}

// lost returns the partitions that the node is to own and owns according to the store, but does not hold: it
// gave up the terms when it could not reach the store. Partitions that others still own, or nobody yet, are
// not lost.
func (n *Node) lost() []int {
	v := n.views.load()
	notHeld := missing(n.share(v), n.assignment.held())
	return slices.DeleteFunc(notHeld, func(p int) bool { return v.owners[p].Node != n.id })
}

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/store"
)

// Services is what a node does for callers, and for the partitions of others.
type Services interface {
	carillon.Jobs
	carillon.Runs
	carillon.Backfills
	carillon.Namespaces
	engine.Partitions
}

// Local is the engine of this node. It answers for what it owns and refuses the rest with [engine.ErrNotOwner]. GetJob and GetRun
// it may answer from the store.
type Local interface {
	Services
	// Assign says what the node is to own from now on; it does not wait.
	Assign(partitions []int)
	// Holdings is what it owns.
	Holdings() []store.Holding
	// Failing is what it is to own and fails to claim, to load or to write, by partition.
	Failing() []engine.Failure
	// Outage is how long ago it last lost most of what it owned together; ever is false if it never has.
	Outage() (ago time.Duration, ever bool)
	// ReloadNamespace reads the settings of a namespace, which have changed.
	ReloadNamespace(ctx context.Context, name string) error
}

// Config is what a node's part in a cluster is made with. The zero value of a field is its default, given here.
type Config struct {
	// Member is the node as others are to know it. Capacity is set by the node itself; a nonce is made up if there is none.
	Member store.Member
	// Store is shared by the nodes.
	Store store.Store
	// Dial makes a peer of another node. It does not wait for a connection.
	Dial func(store.Member) (Peer, error)
	// TTL is how long the leases of partitions are valid, and so how long what a dead node owned is left alone. Default
	// [DefaultTTL].
	TTL time.Duration
	// Settings are to be the same on all nodes.
	Settings []Setting
	Now      func() time.Time // wall clock; default time.Now; a simulation may skew it
	Log      *slog.Logger     // default: discard
	Events   Events
	// Enter is called, if not nil, before each try of a call, on its goroutine and without locks. Calls that waited for
	// the same owner try again at one instant. A simulation lets them wait in Enter, so that they always go in the
	// same order; see also Enter of [engine.Config].
	Enter func(ctx context.Context, partition int, of string)
}

// Events are told what happens. Any may be nil; they must not block.
type Events struct {
	JoinFailed func()                   // the node could not write itself into the store
	Forwarded  func(took time.Duration) // a call was done by a peer, or was refused by it
	Again      func()                   // a call has not found its partition's owner and is tried again
}

// DefaultTTL of leases: a node that is killed has its runs fired by others within 5 s.
const DefaultTTL = 4 * time.Second

// Parts of the TTL.
const (
	beatParts = 4 // a node says that it lives, and looks who else does, so often within it
	// lifeNum of lifeDen of it is how long a node that has not said so counts as living. It is less than the leases last, so
	// that others know what to claim at the moment when they can.
	lifeNum, lifeDen = 3, 4
)

// pollGap is the least time between two looks at the store that calls have asked for.
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
	return c
}

// Node is this process's part in a cluster.
type Node struct {
	cfg    Config
	id     string
	log    *slog.Logger
	leaser store.Leaser
	parts  int
	local  Local // set by Start
	view   atomic.Pointer[view]
	peers  peers
	news   news

	turn   chan struct{} // held by whoever talks to the store about members: one at a time, so that newer views replace older ones
	poked  chan struct{} // somebody wants a newer view
	stop   chan struct{}
	done   chan struct{} // closed when the loop has ended
	cancel context.CancelFunc
	ctx    context.Context // of the loop's calls to the store

	// Guarded by turn.
	assigned []int
	known    bool          // something has been assigned
	entered  bool          // it has been a member
	differ   []string      // settings in which the members differ, as was told last
	polled   time.Duration // when the newest view was asked for, by the clock that nobody sets

	fit        *fitness
	suspicions suspicions // guarded by turn
	outages    outages
	exit       exit
	draining   atomic.Bool
	settled    atomic.Bool  // everything assigned was owned once
	answered   atomic.Int64 // when the store was last asked something that it has answered, by the clock that nobody sets
	joined     atomic.Int64 // when it was last written that the node lives, by the clock that nobody sets
	steady     atomic.Int64 // since when that has not failed, by the same; never = it failed last
	clock      time.Time    // what that counts from
	skew       atomic.Pointer[skew]
	replaced   chan struct{} // closed when another process has this node's name
}

var _ carillon.Cluster = (*Node)(nil)

// New makes a node's part in a cluster. It does nothing before [Node.Start]; the router refuses calls till then.
func New(c Config) *Node {
	c = c.withDefaults()
	n := &Node{
		cfg: c, id: c.Member.ID, log: c.Log, leaser: c.Store.Leaser(), parts: c.Store.Meta().Partitions,
		turn: make(chan struct{}, 1), poked: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		replaced: make(chan struct{}), clock: time.Now(), fit: newFitness(c.TTL),
	}
	n.steady.Store(int64(never))
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.peers = peers{dial: c.Dial, broken: n.poke, by: map[string]*link{}, over: make(chan struct{})}
	n.view.Store(newView(nil, nil, n.parts, time.Time{}))
	n.skew.Store(&skew{})
	return n
}

// Start makes the node a member and has the engine, which must run, claim its share. It ends with [Node.Close]. If it fails
// nothing is left running.
func (n *Node) Start(ctx context.Context, local Local) error {
	n.local = local
	n.turn <- struct{}{}
	err := n.enter(ctx)
	if err == nil {
		err = n.poll(ctx)
	}
	<-n.turn
	if err != nil {
		close(n.done)
		close(n.fit.over)
		return errors.Join(err, n.Close(ctx))
	}
	go n.run()
	go n.prover()
	return nil
}

// run keeps the membership and the view until the node ends.
func (n *Node) run() {
	defer close(n.done)
	period := n.cfg.TTL / beatParts
	next := time.Now().Add(period)
	due := time.NewTimer(period)
	defer due.Stop()
	beat := func() {
		if time.Now().Before(next) {
			return
		}
		_ = n.heartbeat(n.ctx)        // it has been told of
		for !next.After(time.Now()) { // one that the store kept waiting stands for those that it made late
			next = next.Add(period)
		}
		due.Reset(time.Until(next))
	}
	gap := time.NewTimer(0)
	defer gap.Stop()
	poked := n.poked
	for {
		select {
		case <-n.stop:
			return
		case <-due.C:
			beat()
		case <-poked:
			beat() // first, if both are wanted: a look that the store keeps waiting is to make no heartbeat late
			_ = n.Look(n.ctx)
			poked = nil
			gap.Reset(pollGap)
		case <-gap.C:
			poked = n.poked
		}
	}
}

// poke has the loop look at the store soon.
func (n *Node) poke() {
	select {
	case n.poked <- struct{}{}:
	default:
	}
}

// take waits for the turn to talk to the store.
func (n *Node) take(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// heartbeat says that the node lives, and looks who else does and who owns what.
func (n *Node) heartbeat(ctx context.Context) error {
	if err := n.take(ctx); err != nil {
		return err
	}
	defer func() { <-n.turn }()
	if n.isReplaced() {
		return errReplaced
	}
	n.examine()
	err := errors.Join(n.join(ctx), n.poll(ctx))
	if err == nil {
		n.suspect()
	}
	return err
}

// examine looks at what the engine fails on. The caller has the turn.
func (n *Node) examine() {
	failing, serves := n.local.Failing(), n.held()
	for _, x := range failing {
		delete(serves, x.Partition)
	}
	begun := n.fit.watch(failing, serves, n.elapsed(), n.answering())
	if len(begun) > 0 {
		n.log.Warn("this node cannot serve partitions of its share: others own them for a while", "node", n.id, "partitions", len(begun),
			"partition", begun[0].Partition, "reason", begun[0].Err)
	}
}

// suspect looks at what other nodes do not take although it is theirs. The caller has the turn.
func (n *Node) suspect() {
	before := n.suspicions.published()
	if !n.suspicions.look(n.view.Load(), n.id, n.elapsed(), n.answering(), n.cfg.TTL) {
		return
	}
	for id, parts := range n.suspicions.published() {
		if len(before[id]) == 0 {
			n.log.Warn("a node lives and does not take its share of the partitions: others own it for a while", "node", id,
				"partitions", len(parts), "partition", parts[0])
		}
	}
	n.assign(n.view.Load())
}

// answering is since when the store has answered whenever the node said that it lives, and has ended no more than single terms; never, if
// it did not answer last. A store that fails over may answer the heartbeats before and after.
func (n *Node) answering() time.Duration {
	if n.elapsed()-time.Duration(n.joined.Load()) > 2*n.cfg.TTL/beatParts {
		return never
	}
	since := time.Duration(n.steady.Load())
	if ago, ever := n.local.Outage(); ever && since != never {
		since = max(since, n.elapsed()-ago)
	}
	return max(since, time.Duration(n.outages.last.Load()))
}

// Look implements [Control]: it is heartbeat without a word on the node itself. Whoever has waited for the turn while another look
// began shares what that one found: however many look at once, the store is asked twice, and the next heartbeat does not come late.
func (n *Node) Look(ctx context.Context) error {
	since := n.elapsed()
	if err := n.take(ctx); err != nil {
		return err
	}
	defer func() { <-n.turn }()
	if n.polled > since {
		return nil
	}
	return n.poll(ctx)
}

// patience is how long the store may take for one answer.
func (n *Node) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, n.cfg.TTL/beatParts)
}

// elapsed is the process's own clock, which nobody sets.
func (n *Node) elapsed() time.Duration { return time.Since(n.clock) }

// Silent is for how long the store has not answered: it is asked at least every quarter of the leases' time.
func (n *Node) Silent() time.Duration { return n.elapsed() - time.Duration(n.answered.Load()) }

// Ready is nil if the node takes part, otherwise it says why not.
func (n *Node) Ready() error {
	switch since := n.elapsed() - time.Duration(n.joined.Load()); {
	case n.isReplaced():
		return errReplaced
	case n.exit.leaving.Load():
		return errors.New("the node is leaving the cluster")
	case since > n.cfg.TTL:
		return fmt.Errorf("the node could not tell the store for %v that it lives", since.Round(time.Millisecond))
	case n.skew.Load().off:
		return fmt.Errorf("the node's clock is %v off the store's: it owns nothing", n.skew.Load().ahead().Round(time.Millisecond))
	}
	switch is, reason, refuses := n.fit.stands(); {
	case !is && reason != "":
		return fmt.Errorf("the node is unfit to own partitions: %s", reason)
	case len(refuses) > 0:
		return fmt.Errorf("the node cannot serve %d of its partitions: %s", len(refuses), reason)
	case !n.settled.Load():
		return errors.New("the node does not own all of its partitions yet")
	}
	if lost := n.lost(); len(lost) > 0 {
		return fmt.Errorf("the node has lost %d of its partitions and does not own them again yet, such as %d", len(lost), lost[0])
	}
	return nil
}

// MayClaim reports whether the node has written after an instant that it lives, and counts as living still: otherwise another
// process may have its name. For [engine.Config].
func (n *Node) MayClaim(since time.Time) bool {
	joined := time.Duration(n.joined.Load())
	return !n.isReplaced() && !n.clock.Add(joined).Before(since) && n.elapsed()-joined < n.life()
}

// life is how long a node counts as living that has not said so again.
func (n *Node) life() time.Duration { return n.cfg.TTL * lifeNum / lifeDen }

// Replaced is closed when another process has taken this node's name: this one owns nothing any more and is to end.
func (n *Node) Replaced() <-chan struct{} { return n.replaced }

func (n *Node) isReplaced() bool {
	select {
	case <-n.replaced:
		return true
	default:
		return false
	}
}

func (n *Node) isStopped() bool {
	select {
	case <-n.stop:
		return true
	default:
		return false
	}
}

// Close ends the membership, and everything that New and Start have begun. The engine is to have stopped.
func (n *Node) Close(ctx context.Context) error {
	n.cancel()
	select {
	case <-n.stop:
	default:
		close(n.stop)
	}
	n.exit.leaving.Store(true) // after that: the engine has stopped, and is not told what to own any more
	n.exit.ended.Store(true)
	<-n.done
	select {
	case <-n.fit.over:
	case <-ctx.Done(): // a commit may hang; the store waits for it when it is closed
	}
	n.news.end()
	n.peers.close()
	ctx, cancel := context.WithTimeout(ctx, n.life()) // after which the membership has ended by itself
	defer cancel()
	if err := n.leaser.Leave(ctx, n.id, n.cfg.Member.Nonce); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return nil
}

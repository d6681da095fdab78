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

// Services is what a node does for callers, and for the partitions of other nodes.
type Services interface {
	carillon.Jobs
	carillon.Runs
	carillon.Backfills
	carillon.Namespaces
	engine.Partitions
}

// Local is the engine of this node. It answers for what it owns and refuses the rest with
// [engine.ErrNotOwner]. It may answer GetJob and GetRun from the store.
type Local interface {
	Services
	// Assign sets which partitions the node is to own from now on. It does not wait.
	Assign(partitions []int)
	// Holdings returns the partitions that it holds.
	Holdings() []store.Holding
	// Failing returns, by partition, what it is to own and fails to claim, to load or to write.
	Failing() []engine.Failure
	// Outage returns how long ago it last lost most of its terms together; ever is false if it never has.
	Outage() (ago time.Duration, ever bool)
	// ReloadNamespace reads the settings of a namespace, because they have changed.
	ReloadNamespace(ctx context.Context, name string) error
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
	// TTL is how long the leases of partitions are valid, and so how long the partitions of a dead node are
	// left alone. Default [DefaultTTL].
	TTL time.Duration
	// Settings should be the same on all nodes.
	Settings []Setting
	Now      func() time.Time // wall clock; default time.Now; a simulation may skew it
	Log      *slog.Logger     // default: discard
	Events   Events
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

// DefaultTTL of leases: if a node is killed, other nodes fire its runs within 5 s.
const DefaultTTL = 4 * time.Second

// Fractions of the TTL.
const (
	beatParts = 4 // a node writes a heartbeat, and reads the members, this often in a TTL
	// lifeNum of lifeDen of the TTL is how long a node counts as living after its last heartbeat. It is less
	// than the leases last, so that the others know what to claim as soon as they can.
	lifeNum, lifeDen = 3, 4
)

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

	// Held by whoever talks to the store about members: one at a time, so that newer views replace older
	// ones.
	turn   chan struct{}
	poked  chan struct{} // a newer view is wanted
	stop   chan struct{}
	done   chan struct{} // closed when the loop has ended
	cancel context.CancelFunc
	ctx    context.Context // for the loop's calls to the store

	// Guarded by turn.
	assigned []int
	known    bool          // something has been assigned
	entered  bool          // it has been a member
	differ   []string      // differences of settings that were last logged
	polled   time.Duration // when the newest view was requested, by the monotonic clock

	fit        *fitness
	suspicions suspicions // guarded by turn
	outages    outages
	exit       exit
	draining   atomic.Bool
	settled    atomic.Bool  // everything assigned was owned once
	answered   atomic.Int64 // when the last request that the store answered was made, by the monotonic clock
	joined     atomic.Int64 // when the last heartbeat was written, by the monotonic clock
	steady     atomic.Int64 // since when heartbeats have not failed, by the same; never = the last one failed
	clock      time.Time    // zero point of the monotonic clock
	skew       atomic.Pointer[skew]
	replaced   chan struct{} // closed when another process has this node's name
}

var _ carillon.Cluster = (*Node)(nil)

// New makes a node's part in a cluster. It does nothing before [Node.Start]; until then the router refuses
// calls.
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

// Start makes the node a member and has the engine, which must be running, claim its share. It ends with
// [Node.Close]. If Start fails nothing is left running.
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

// run keeps membership and view up to date until the node ends.
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
		_ = n.heartbeat(n.ctx) // it has logged its errors
		// A heartbeat that the store kept waiting stands for those that it delayed.
		for !next.After(time.Now()) {
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
			beat() // first, if both are due: a look that the store keeps waiting must not delay a heartbeat
			_ = n.Look(n.ctx)
			poked = nil
			gap.Reset(pollGap)
		case <-gap.C:
			poked = n.poked
		}
	}
}

// poke makes the loop look at the store soon.
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

// heartbeat writes the node's heartbeat, and reads the members and owners.
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

// examine looks at what the engine fails on. The caller holds the turn.
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

// suspect looks for partitions that other nodes do not take although they should. The caller holds the turn.
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

// answering returns since when the store has answered all heartbeats and has ended no more than single terms;
// never, if it did not answer the last one. A store that fails over may answer the heartbeats before and
// after.
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

// Look implements [Control]. It is heartbeat without writing one. A caller that waited for the turn while
// another look began shares the result of that one: however many look at once, the store is asked twice, and
// the next heartbeat is not delayed.
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

// patience bounds how long the store may take for one answer.
func (n *Node) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, n.cfg.TTL/beatParts)
}

// elapsed returns the time since New, by a monotonic clock that nobody sets.
func (n *Node) elapsed() time.Duration { return time.Since(n.clock) }

// Silent returns how long the store has not answered. It is asked at least every quarter of the TTL.
func (n *Node) Silent() time.Duration { return n.elapsed() - time.Duration(n.answered.Load()) }

// Ready returns an error that says why the node does not take part; nil if it does.
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

// MayClaim reports whether the node has written a heartbeat after since, and still counts as living.
// Otherwise another process may have its name. It is the MayClaim of [engine.Config].
func (n *Node) MayClaim(since time.Time) bool {
	joined := time.Duration(n.joined.Load())
	return !n.isReplaced() && !n.clock.Add(joined).Before(since) && n.elapsed()-joined < n.life()
}

// life returns how long a node counts as living after its last heartbeat.
func (n *Node) life() time.Duration { return n.cfg.TTL * lifeNum / lifeDen }

// Replaced is closed when another process has taken this node's name: this one owns nothing any more and
// should end.
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

// Close ends the membership, and everything that New and Start have begun. The engine must have stopped.
func (n *Node) Close(ctx context.Context) error {
	n.cancel()
	select {
	case <-n.stop:
	default:
		close(n.stop)
	}
	// After stop is closed: the engine has stopped, and is assigned nothing any more.
	n.exit.leaving.Store(true)
	n.exit.ended.Store(true)
	<-n.done
	select {
	case <-n.fit.over:
	case <-ctx.Done(): // a commit may hang; the store waits for it when it is closed
	}
	n.news.end()
	n.peers.close()
	ctx, cancel := context.WithTimeout(ctx, n.life()) // after that time the membership has ended by itself
	defer cancel()
	if err := n.leaser.Leave(ctx, n.id, n.cfg.Member.Nonce); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return nil
}

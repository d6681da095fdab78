package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

const parts = 16

// rig is several nodes over one store, in a bubble.
type rig struct {
	t     *testing.T
	store *memory.Store

	control     func(cluster.Control) cluster.Control // wraps the control between nodes; nil: unchanged
	putTakes    time.Duration                         // how long a put over a link made from now on takes
	onMembers   func()                                // called before a node reads the members; nil: nothing
	beforeStart func(*node)                           // called with a node before it starts; nil: nothing

	mu    sync.Mutex
	nodes []*node // all nodes that were ever started
	links map[string]*link
}

// linked records the newest link between two nodes.
func (f *rig) linked(name string, l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.links == nil {
		f.links = map[string]*link{}
	}
	f.links[name] = l
}

// link returns the newest link between two nodes.
func (f *rig) link(from, to string) *link {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.links[from+" to "+to]
}

// all returns all nodes that were ever started.
func (f *rig) all() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, store: memory.New(memory.Options{Partitions: parts})}
}

// oneNode returns a rig of one node that owns everything.
func oneNode(t *testing.T) (f *rig, a *node) {
	t.Helper()
	f = newRig(t)
	a = f.start("a")
	f.settle(2*time.Second, a)
	return f, a
}

// twoNodes returns a rig of two nodes that have settled their shares.
func twoNodes(t *testing.T) (f *rig, a, b *node) {
	t.Helper()
	f = newRig(t)
	a, b = f.start("a"), f.start("b")
	f.settle(2*time.Second, a, b)
	return f, a, b
}

// node is an engine and its part in the cluster.
type node struct {
	*cluster.Node
	f             *rig
	id            string
	engine        *engine.Engine
	clockAhead    atomic.Int64 // of its clock
	isolated      atomic.Bool  // from the store and from the others
	noStore       atomic.Bool  // cut off from the store, and not from the others
	readsFail     atomic.Bool  // it cannot read records
	readsHang     atomic.Bool  // reads of records are not answered
	writesUnknown atomic.Bool  // the store takes its writes and does not say so
	claimsFail    atomic.Bool  // the store refuses its claims, although it is a member
	writesFail    atomic.Bool  // the store refuses its writes, although it is a member
	noCondition   atomic.Bool  // it states nothing about itself, like nodes of an older version
	unreadable    atomic.Int64 // number of a partition that it cannot read, plus one; 0 = none
	broken        chan struct{}
	nonce         uint64
	clockDelay    atomic.Int64 // how long reading the store's clock takes
	membersDelay  atomic.Int64 // how long reading the members takes
	looks         atomic.Int64 // number of reads of the members
	reloads       atomic.Int64 // number of announcements of settings
	log           text
}

// text returns what was written.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements [io.Writer].
func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

// count returns how often s was written.
func (x *text) count(what string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Count(x.b.String(), what)
}

// ReloadNamespace implements [cluster.Control].
func (n *node) ReloadNamespace(ctx context.Context, name string) error {
	n.reloads.Add(1)
	return n.Node.ReloadNamespace(ctx, name)
}

func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.clockAhead.Load())) }

// ownJob returns the name of a job whose partition the node owns.
func (n *node) ownJob() string {
	held := map[int]bool{}
	for _, h := range n.engine.Holdings() {
		held[h.Partition] = true
	}
	for i := 0; ; i++ {
		k := carillon.Key{Namespace: carillon.DefaultNamespace, Name: fmt.Sprint("job/", i)}
		if held[store.PartitionOf(k, parts)] {
			return k.Name
		}
	}
}

// start starts a node, which is stopped at the end of the test.
func (f *rig) start(id string, settings ...cluster.Setting) *node {
	f.t.Helper()
	n, err := f.try(id, settings...)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *rig) try(id string, settings ...cluster.Setting) (*node, error) {
	f.t.Helper()
	n := &node{f: f, id: id, broken: make(chan struct{}), nonce: uint64(len(f.all()) + 1)}
	if f.beforeStart != nil {
		f.beforeStart(n)
	}
	s := cutStore{f.store, n}
	n.Node = cluster.New(cluster.Config{
		Member: store.Member{ID: id, Address: id, Sidecars: id + ":1", Nonce: n.nonce}, Store: s, Settings: settings,
		Now: n.now, Dial: n.dial, Log: slog.New(slog.NewTextHandler(&n.log, nil)), Exclusive: id == exclusive,
		Queues: knows{id}, Trouble: n.trouble,
	})
	n.engine = engine.New(engine.Config{Store: s, Node: id, Now: n.now, Standby: true, Peers: n.Router(),
		Announce: n.Announce, AnnounceLimits: n.AnnounceLimits, MayClaim: n.MayClaim,
		LeaseTTL: cluster.DefaultTTL})
	if err := n.engine.Start(f.t.Context(), noConsumers{}); err != nil {
		return nil, err
	}
	f.t.Cleanup(func() { n.end() })
	if err := n.Start(f.t.Context(), n.engine); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.nodes = append(f.nodes, n)
	f.mu.Unlock()
	f.t.Cleanup(func() { _ = n.Close(context.Background()) }) // a node that was cut off cannot leave cleanly
	return n, nil
}

// trouble is what the engine says of the store.
func (n *node) trouble() (lasts time.Duration, err error) {
	since, err := n.engine.StoreAway()
	if err != nil {
		err = fmt.Errorf("the store has not answered: %w", err)
	}
	return n.now().Sub(since), err
}

func (n *node) end() {
	n.isolated.Store(false)
	_ = n.engine.Stop(context.Background()) // its result does not matter
}

// kill cuts a node off from everything.
func (n *node) kill() {
	n.isolated.Store(true)
	close(n.broken)
}

// dial connects to a node that is not cut off.
func (n *node) dial(m store.Member) (cluster.Peer, error) {
	for _, other := range n.f.all() {
		if other.id == m.Address && other.nonce == m.Nonce && !other.isolated.Load() && !n.isolated.Load() {
			l := &link{Services: other.engine, Control: other, broken: other.broken, takes: n.f.putTakes,
				closed: make(chan struct{}), from: n}
			if n.f.control != nil {
				l.Control = n.f.control(l.Control)
			}
			n.f.linked(n.id+" to "+m.ID, l)
			return l, nil
		}
	}
	return nil, errors.New("no route")
}

// link is a connection inside the process.
type link struct {
	cluster.Services
	cluster.Control
	broken chan struct{}
	takes  time.Duration // how long each call takes
	closed chan struct{}
	from   *node
}

// HearLimits implements [cluster.Control]. A node that is cut off tells nothing.
func (l *link) HearLimits(ctx context.Context, table *message.LimitTable) error {
	if l.from.isolated.Load() {
		return cluster.ErrUnreached
	}
	return l.Control.HearLimits(ctx, table)
}

func (l *link) Broken() <-chan struct{} { return l.broken }

func (l *link) Close() error { close(l.closed); return nil }

// Ask implements [message.Partitions]. A put takes a while, and is lost if the link is closed meanwhile.
func (l *link) Ask(ctx context.Context, p int, m message.Message) (any, error) {
	if _, put := m.(message.PutJob); put && l.takes > 0 {
		select {
		case <-time.After(l.takes):
		case <-l.closed:
			return nil, &carillon.Error{Kind: carillon.Unavailable, Message: "cut", Unknown: true,
				Err: cluster.ErrLost}
		}
	}
	return l.Services.Ask(ctx, p, m)
}

// owners returns how many nodes believe that they own each partition. Of nodes with the same name only the
// newest process counts: an older one that cannot be reached is fenced.
func (f *rig) owners() (counts [parts]int) {
	newest := map[string]*node{}
	for _, n := range f.all() {
		newest[n.id] = n
	}
	for _, n := range newest {
		for _, h := range n.engine.Holdings() {
			counts[h.Partition]++
		}
	}
	return counts
}

// countOf returns how many partitions have n owners.
func countOf(owners [parts]int, n int) (sum int) {
	for _, of := range owners {
		if of == n {
			sum++
		}
	}
	return sum
}

// settle waits until every partition has one owner and, if shares are given, the nodes have these. It fails
// if that takes too long or if a partition ever has two owners.
func (f *rig) settle(within time.Duration, living ...*node) {
	f.t.Helper()
	began := time.Now()
	for {
		counts := f.owners()
		if slices.Max(counts[:]) > 1 {
			f.t.Fatalf("a partition has two owners: %v", counts)
		}
		held := 0
		for _, n := range living {
			held += len(n.engine.Holdings())
			if n.engine.Ready() != nil {
				held = -parts
			}
		}
		if held == parts && slices.Min(counts[:]) == 1 {
			return
		}
		if time.Since(began) > within {
			f.t.Fatalf("not within %v: owners %v", within, counts)
		}
		sleep(5 * time.Millisecond)
		synctest.Wait()
	}
}

// shared is settle with an equal share for each node.
func (f *rig) shared(within time.Duration, living ...*node) {
	f.t.Helper()
	began := time.Now()
	for slices.ContainsFunc(living, func(n *node) bool {
		return len(n.engine.Holdings()) == 0 || n.Ready() != nil
	}) {
		if time.Since(began) > within {
			for _, n := range living {
				f.t.Logf("%s owns %d partitions, ready: %v", n.id, len(n.engine.Holdings()), n.Ready())
			}
			f.t.Fatalf("not shared within %v", within)
		}
		sleep(5 * time.Millisecond)
	}
	f.settle(2*time.Second, living...)
}

// sleep lets time pass in the bubble.
func sleep(d time.Duration) { <-time.After(d) }

// futureJob returns a job that is due much later.
func futureJob(name string) carillon.Job {
	return carillon.Job{Name: name, Due: carillon.In(time.Hour), Target: carillon.WorkerQueue("q")}
}

// keepPutting puts jobs through a node until it is told to end. Each put must succeed within the time, except
// for as many as a node that breaks down may have under way.
func keepPutting(t *testing.T, n *node, within time.Duration, fail int) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			began := time.Now()
			if _, err := n.Router().PutJob(context.Background(), futureJob(fmt.Sprint("job/", n.id, i))); err != nil {
				if fail--; fail < 0 {
					t.Errorf("put %d: %v", i, err)
					return
				}
			}
			if took := time.Since(began); took > within {
				t.Errorf("put %d took %v", i, took)
			}
			sleep(time.Millisecond)
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// noConsumers is a dispatcher without consumers.
type noConsumers struct{}

func (noConsumers) Offer(delivery.Owner, []delivery.Waiting) {}

func (noConsumers) Deliver(int, []delivery.Delivery, []delivery.Rest) {}

func (noConsumers) Cancel([]delivery.Cancel) {}

func (noConsumers) Forget(int) {}

func (noConsumers) Awaited(int, []delivery.Awaited) {}
func (noConsumers) SetPaused([]delivery.Queue)      {}

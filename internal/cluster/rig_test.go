package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/internal/engine"
	"github.com/carillonhq/carillon/internal/partition"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/memory"
)

const parts = 16

// fleet is several nodes over one store, in a bubble.
type fleet struct {
	t     *testing.T
	store *memory.Store

	control   func(cluster.Control) cluster.Control // wraps the control between nodes; nil: unchanged
	takes     time.Duration                         // how long a put over a link made from now on takes
	meanwhile func()                                // called before a node reads the members; nil: nothing
	prepare   func(*node)                           // called with a node before it starts; nil: nothing

	mu    sync.Mutex
	nodes []*node // all nodes that were ever started
	links map[string]*link
}

// linked records the newest link between two nodes.
func (f *fleet) linked(name string, l *link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.links == nil {
		f.links = map[string]*link{}
	}
	f.links[name] = l
}

// link returns the newest link between two nodes.
func (f *fleet) link(from, to string) *link {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.links[from+" to "+to]
}

// all returns all nodes that were ever started.
func (f *fleet) all() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, store: memory.New(memory.Options{Partitions: parts})}
}

// single returns a fleet of one node that owns everything.
func single(t *testing.T) (f *fleet, a *node) {
	t.Helper()
	f = newFleet(t)
	a = f.start("a")
	f.settle(2*time.Second, a)
	return f, a
}

// pair returns a fleet of two nodes that have settled their shares.
func pair(t *testing.T) (f *fleet, a, b *node) {
	t.Helper()
	f = newFleet(t)
	a, b = f.start("a"), f.start("b")
	f.settle(2*time.Second, a, b)
	return f, a, b
}

// node is an engine and its part in the cluster.
type node struct {
	*cluster.Node
	f      *fleet
	id     string
	engine *engine.Engine
	ahead  atomic.Int64 // of its clock
	cut    atomic.Bool  // from the store and from the others
	lonely atomic.Bool  // cut off from the store, and not from the others
	blind  atomic.Bool  // it cannot read records
	vague  atomic.Bool  // the store takes its writes and does not say so
	barred atomic.Bool  // the store refuses its claims, although it is a member
	mute   atomic.Bool  // the store refuses its writes, although it is a member
	silent atomic.Bool  // it states nothing about itself, like nodes of an older version
	spoilt atomic.Int64 // number of a partition that it cannot read, plus one; 0 = none
	broken chan struct{}
	nonce  uint64
	slow   atomic.Int64 // how long reading the store's clock takes
	lag    atomic.Int64 // how long reading the members takes
	looks  atomic.Int64 // number of reads of the members
	told   atomic.Int64 // number of announcements of settings
	log    text
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
	n.told.Add(1)
	return n.Node.ReloadNamespace(ctx, name)
}

func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.ahead.Load())) }

// start starts a node, which is stopped at the end of the test.
func (f *fleet) start(id string, settings ...cluster.Setting) *node {
	f.t.Helper()
	n, err := f.try(id, settings...)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *fleet) try(id string, settings ...cluster.Setting) (*node, error) {
	f.t.Helper()
	n := &node{f: f, id: id, broken: make(chan struct{}), nonce: uint64(len(f.all()) + 1)}
	if f.prepare != nil {
		f.prepare(n)
	}
	s := cutStore{f.store, n}
	n.Node = cluster.New(cluster.Config{
		Member: store.Member{ID: id, Address: id, Nonce: n.nonce}, Store: s, Settings: settings, Now: n.now, Dial: n.dial,
		Log: slog.New(slog.NewTextHandler(&n.log, nil)),
	})
	n.engine = engine.New(engine.Config{Store: s, Node: id, Now: n.now, Standby: true, Peers: n.Router(), Announce: n.Announce, MayClaim: n.MayClaim, LeaseTTL: cluster.DefaultTTL})
	if err := n.engine.Start(f.t.Context(), idle{}); err != nil {
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

func (n *node) end() {
	n.cut.Store(false)
	_ = n.engine.Stop(context.Background()) // its result does not matter
}

// kill cuts a node off from everything.
func (n *node) kill() {
	n.cut.Store(true)
	close(n.broken)
}

// dial connects to a node that is not cut off.
func (n *node) dial(m store.Member) (cluster.Peer, error) {
	for _, other := range n.f.all() {
		if other.id == m.Address && other.nonce == m.Nonce && !other.cut.Load() && !n.cut.Load() {
			l := &link{Services: other.engine, Control: other, broken: other.broken, takes: n.f.takes, closed: make(chan struct{})}
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
}

func (l *link) Broken() <-chan struct{} { return l.broken }
func (l *link) Close() error            { close(l.closed); return nil }

// PutJob implements [carillon.Jobs]. It takes a while, and is lost if the link is closed meanwhile.
func (l *link) PutJob(ctx context.Context, job carillon.Job, o ...carillon.PutOption) (carillon.PutResult, error) {
	if l.takes > 0 {
		select {
		case <-time.After(l.takes):
		case <-l.closed:
			return carillon.PutResult{}, &carillon.Error{Kind: carillon.Unavailable, Message: "cut", Unknown: true, Err: cluster.ErrLost}
		}
	}
	return l.Services.PutJob(ctx, job, o...)
}

// owners returns how many nodes believe that they own each partition. Of nodes with the same name only the
// newest process counts: an older one that cannot be reached is fenced.
func (f *fleet) owners() (counts [parts]int) {
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

// settle waits until every partition has one owner and, if shares are given, the nodes have these. It fails
// if that takes too long or if a partition ever has two owners.
func (f *fleet) settle(within time.Duration, living ...*node) {
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
		pass(5 * time.Millisecond)
		synctest.Wait()
	}
}

// pass lets time pass in the bubble.
func pass(d time.Duration) { <-time.After(d) }

// idle is a dispatcher without consumers.
type idle struct{}

func (idle) Take(int, partition.Queue, int, partition.Head) (s partition.Slots) { return s }
func (idle) Return(int, partition.Queue, int)                                   {}
func (idle) Deliver([]partition.Delivery)                                       {}
func (idle) Cancel([]partition.Cancel)                                          {}
func (idle) Forget(int)                                                         {}

// astray reports whether the store cannot be reached.
func (n *node) astray() bool { return n.cut.Load() || n.lonely.Load() }

var errCut = errors.New("the store cannot be reached")

// cutStore is a store that a node can be cut off from.
type cutStore struct {
	store.Store
	by *node
}

func (s cutStore) Shard(p int, term store.Term) (store.Shard, error) {
	shard, err := s.Store.Shard(p, term)
	return cutShard{shard, s.by, p}, err
}

func (s cutShard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	if s.by.blind.Load() {
		return nil, errCut
	}
	return s.Shard.Read(ctx, refs)
}

// MetaRecords is the first read of a partition that was claimed.
func (s cutShard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if s.by.spoilt.Load() == int64(s.p)+1 {
		return nil, store.ErrDamaged
	}
	return s.Shard.MetaRecords(ctx, q)
}

func (s cutStore) Leaser() store.Leaser { return cutLeaser{s.Store.Leaser(), s.by} }

type cutShard struct {
	store.Shard
	by *node
	p  int
}

func (s cutShard) Apply(ctx context.Context, b *store.Batch) error {
	if s.by.astray() || s.by.mute.Load() {
		return errCut
	}
	err := s.Shard.Apply(ctx, b)
	if err == nil && s.by.vague.Load() {
		return store.ErrUnknown
	}
	return err
}

type cutLeaser struct {
	store.Leaser
	by *node
}

func (l cutLeaser) Now(ctx context.Context) (time.Time, error) {
	if l.by.astray() {
		return time.Time{}, errCut
	}
	defer pass(time.Duration(l.by.slow.Load()))
	return l.Leaser.Now(ctx)
}

func (l cutLeaser) Join(ctx context.Context, m store.Member, ttl time.Duration) error {
	if l.by.astray() {
		return errCut
	}
	if l.by.silent.Load() {
		m.State, m.Capacity = "", 1
	}
	return l.Leaser.Join(ctx, m, ttl)
}

func (l cutLeaser) Retire(ctx context.Context, m store.Member, ttl time.Duration) error {
	if l.by.astray() {
		return errCut
	}
	return l.Leaser.Retire(ctx, m, ttl)
}

func (l cutLeaser) Leave(ctx context.Context, id string, nonce uint64) error {
	if l.by.astray() {
		return errCut
	}
	return l.Leaser.Leave(ctx, id, nonce)
}

func (l cutLeaser) Members(ctx context.Context) ([]store.Member, error) {
	l.by.looks.Add(1)
	pass(time.Duration(l.by.lag.Load()))
	if f := l.by.f.meanwhile; f != nil {
		f()
	}
	if l.by.astray() {
		return nil, errCut
	}
	return l.Leaser.Members(ctx)
}

func (l cutLeaser) Claim(ctx context.Context, node string, ps []int, ttl time.Duration) ([]store.Term, error) {
	if l.by.astray() || l.by.barred.Load() {
		return nil, errCut
	}
	return l.Leaser.Claim(ctx, node, ps, ttl)
}

func (l cutLeaser) Renew(ctx context.Context, node string, held []store.Holding, ttl time.Duration) ([]store.Holding, error) {
	if l.by.astray() {
		return nil, errCut
	}
	return l.Leaser.Renew(ctx, node, held, ttl)
}

func (l cutLeaser) Release(ctx context.Context, node string, held []store.Holding) error {
	if l.by.astray() {
		return errCut
	}
	return l.Leaser.Release(ctx, node, held)
}

func (l cutLeaser) Owners(ctx context.Context) ([]store.Owner, error) {
	if l.by.astray() {
		return nil, errCut
	}
	return l.Leaser.Owners(ctx)
}

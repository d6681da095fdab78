package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/queues"
	"github.com/carillonhq/carillon/server/store"
)

// Errors of a peer, wrapped in an Unavailable [carillon.Error].
var (
	// ErrUnreached: the call has certainly not reached the peer, or was refused before anything was done.
	ErrUnreached = errors.New("the call has not reached the node")
	// ErrOlder: the peer is of an older version and does not know a field of the request, or the call itself.
	// Nothing was done.
	ErrOlder = errors.New("the node is of an older version")
	// ErrLost: the connection broke after the call was sent. A call that can be repeated without harm may be.
	ErrLost = errors.New("the connection to the node broke")
)

// Control is what nodes ask of each other as nodes, besides the services for partitions.
type Control interface {
	// Status returns what the node says of itself.
	Status(ctx context.Context) (Status, error)
	// Look makes the node read the members and owners at once, and act on them.
	Look(ctx context.Context) error
	// SetDraining makes the process with that nonce own nothing, or its share again. Another process of the
	// same name refuses, and so does a node whose partitions no other node could take.
	SetDraining(ctx context.Context, nonce uint64, on bool) error
	// ReloadNamespace makes the node read the settings of a namespace, because they have changed.
	ReloadNamespace(ctx context.Context, name string) error
	// ReloadQueues makes the node read which queues are paused, and returns once it hands out nothing of them.
	ReloadQueues(ctx context.Context) error
	// HearLimits tells the node which limits the sidecars of another one have named.
	HearLimits(ctx context.Context, table *message.LimitTable) error
	// SettleSidecar has the node send nothing more to a sidecar, and returns when that has answered what it
	// has; see [Settler].
	SettleSidecar(ctx context.Context, from string, told bool) error
	// Node is what it knows of queues and workers.
	queues.Node
}

// Status is what a node says of itself.
type Status struct {
	ID        string
	Nonce     uint64
	Skew      time.Duration // how far its clock is ahead of the store's
	SkewKnown bool
	Leaving   bool   // it was told to end
	Trouble   string // why it cannot write to the store at present, or gets no answer; empty if it can
}

// Peer is another node. Its errors are [carillon.Error], caused by those of this package or
// [message.ErrNotOwner].
type Peer interface {
	Services
	Control
	// Broken is closed once the connection is of no more use: calls under way have ended with ErrLost, and
	// new ones end with ErrUnreached. A peer that does not answer for some seconds is detected without a
	// call.
	Broken() <-chan struct{}
	// Close ends the connection and the calls under way.
	Close() error
}

// peers holds the connections to the other nodes.
type peers struct {
	dial   func(store.Member) (Peer, error)
	broken func() // called when a connection has broken
	me     string // this node's id
	self   Control
	log    *slog.Logger

	mu    sync.Mutex
	links map[string]*link // by id
	ended bool
	over  chan struct{} // closed when ended
	watch sync.WaitGroup
}

func newPeers(c *Config, broken func(), self Control) *peers {
	return &peers{
		dial: c.Dial, broken: broken, me: c.Member.ID, self: self, log: c.Log,
		links: map[string]*link{}, over: make(chan struct{}),
	}
}

// link is a connection to one process.
type link struct {
	member store.Member
	peer   Peer
	gone   chan struct{} // closed when no new calls go over it
	quiet  chan struct{} // closed when it is gone and no call is under way

	// Guarded by the lock of peers.
	calls  int  // calls under way
	closed bool // quiet is
}

// of returns the connection to a node, and makes one if there is none. The call counts as under way until
// done is called.
func (p *peers) of(m store.Member) (peer Peer, done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.connect(m)
	if err != nil {
		return nil, nil, err
	}
	l.calls++
	return l.peer, func() { p.end(l) }, nil
}

// end is called when a call over a link has ended.
func (p *peers) end(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.calls--
	p.closeIfQuiet(l)
}

// closeIfQuiet closes quiet if the link is gone and not used any more. The caller holds the lock.
func (p *peers) closeIfQuiet(l *link) {
	if l.calls == 0 && p.links[l.member.ID] != l && !l.closed {
		l.closed = true
		close(l.quiet)
	}
}

// connect returns the link to a node, and dials if there is none. The caller holds the lock.
func (p *peers) connect(m store.Member) (*link, error) {
	if p.ended {
		return nil, fmt.Errorf("%w: this node is shutting down", ErrUnreached)
	}
	if l := p.links[m.ID]; l != nil {
		if l.member.Nonce == m.Nonce && l.member.Address == m.Address {
			return l, nil
		}
		p.drop(l)
	}
	peer, err := p.dial(m)
	if err != nil {
		return nil, fmt.Errorf("%w: node %q at %q: %w", ErrUnreached, m.ID, m.Address, err)
	}
	l := &link{member: m, peer: peer, gone: make(chan struct{}), quiet: make(chan struct{})}
	p.links[m.ID] = l
	p.watch.Go(func() { p.attend(l) })
	return l, nil
}

// attend waits until a link is of no more use, and closes it.
func (p *peers) attend(l *link) {
	select {
	case <-l.peer.Broken():
		p.mu.Lock()
		if p.links[l.member.ID] == l {
			p.drop(l)
		}
		p.mu.Unlock()
		p.broken()
	case <-l.gone:
		p.linger(l)
	}
	_ = l.peer.Close() // it is not used any more
}

// lingerFor is how long a node that is no longer a member may take to answer earlier calls: as long as the
// longest call may take. A node that leaves cleanly, or has only missed some heartbeats, does answer; a dead
// one is found to be broken.
const lingerFor = time.Minute

// linger lets the calls under way over a dropped link end.
func (p *peers) linger(l *link) {
	select {
	case <-l.quiet:
	case <-l.peer.Broken():
	case <-p.over:
	case <-time.After(lingerFor):
	}
}

// drop removes a link. The caller holds the lock.
func (p *peers) drop(l *link) {
	delete(p.links, l.member.ID)
	close(l.gone)
	p.closeIfQuiet(l)
}

// keep connects to all members, so that a broken connection is noticed, and drops links to nodes that are no
// longer members.
func (p *peers) keep(members []store.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	living := make(map[string]uint64, len(members))
	for _, m := range members {
		living[m.ID] = m.Nonce
		if m.ID != p.me {
			_, _ = p.connect(m) // a caller of that node will get the error
		}
	}
	for id, l := range p.links {
		if living[id] != l.member.Nonce {
			p.drop(l)
		}
	}
}

// close closes all links.
func (p *peers) close() {
	p.mu.Lock()
	if !p.ended {
		p.ended = true
		close(p.over)
	}
	for _, l := range p.links {
		p.drop(l)
	}
	p.mu.Unlock()
	p.watch.Wait()
}

// lookWithin is how long the other nodes may take to look at the store.
const lookWithin = 500 * time.Millisecond

// lookAll makes the members, including this one, look at the store, and waits until they have.
func (p *peers) lookAll(ctx context.Context, members []store.Member) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	p.each(members, func(m store.Member, c Control) {
		if err := c.Look(ctx); err != nil {
			// the node will look soon anyway
			p.log.Debug("a node was not told to look at the store", "node", m.ID, "error", err)
		}
	})
}

// answers returns what f returns for each member, by id. Members that cannot be dialed and those that answer
// with an error are left out.
func answers[T any](p *peers, members []store.Member,
	f func(m store.Member, c Control) (T, error)) map[string]T {
	var mu sync.Mutex
	all := map[string]T{}
	p.each(members, func(m store.Member, c Control) {
		answer, err := f(m, c)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		all[m.ID] = answer
	})
	return all
}

// each calls f for all members concurrently, and waits. Members that cannot be dialed are left out.
func (p *peers) each(members []store.Member, f func(m store.Member, c Control)) {
	var all sync.WaitGroup
	for _, m := range members {
		c, done, err := p.control(m)
		if err != nil {
			continue
		}
		all.Go(func() {
			defer done()
			f(m, c)
		})
	}
	all.Wait()
}

// control returns the control of a node, which may be this one. done must be called at the end.
func (p *peers) control(m store.Member) (c Control, done func(), err error) {
	if m.ID == p.me {
		return p.self, func() {}, nil
	}
	return p.of(m)
}

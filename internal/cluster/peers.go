package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillonhq/carillon/store"
)

// Errors of a peer, within an Unavailable [carillon.Error].
var (
	// ErrUnreached: the call has certainly not reached the peer, or was refused before anything was done.
	ErrUnreached = errors.New("the call has not reached the node")
	// ErrOlder: the peer is of an older version and does not know a field of the request, or the call itself. Nothing was done.
	ErrOlder = errors.New("the node is of an older version")
	// ErrLost: the connection broke after the call had left. What can be repeated without harm may be.
	ErrLost = errors.New("the connection to the node broke")
)

// Control is what nodes ask of each other besides.
type Control interface {
	// Status is what the node says of itself.
	Status(ctx context.Context) (Status, error)
	// Look has it read at once who lives and who owns what, and act on that.
	Look(ctx context.Context) error
	// SetDraining has the process of that nonce own nothing, or its share again; another one of the name refuses. So does one whose
	// partitions no other node could take.
	SetDraining(ctx context.Context, nonce uint64, on bool) error
	// ReloadNamespace has it read the settings of a namespace, which have changed.
	ReloadNamespace(ctx context.Context, name string) error
}

// Status is what a node says of itself.
type Status struct {
	ID        string
	Nonce     uint64
	Skew      time.Duration // how far its clock is ahead of the store's
	SkewKnown bool
	Leaving   bool // it was told to end
}

// Peer is another node. Its errors are [carillon.Error], with those of this package and [engine.ErrNotOwner] as their causes.
type Peer interface {
	Services
	Control
	// Broken is closed once the connection is of no more use: calls under way have ended with ErrLost, new ones end with
	// ErrUnreached. A peer that does not answer for some seconds is found out without a call.
	Broken() <-chan struct{}
	// Close ends the connection and the calls under way.
	Close() error
}

// peers are the connections to the other nodes.
type peers struct {
	dial   func(store.Member) (Peer, error)
	broken func() // one has broken

	mu    sync.Mutex
	by    map[string]*link // by id
	ended bool
	over  chan struct{} // closed when ended
	watch sync.WaitGroup
}

// link is a connection to one process.
type link struct {
	member store.Member
	peer   Peer
	gone   chan struct{} // closed when nothing new is asked over it
	quiet  chan struct{} // closed when it is gone and nothing is under way

	// Guarded by the lock of peers.
	calls  int // under way
	silent bool
}

// of is the connection to a node, which is made if there is none, for something that is under way until done is called.
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

// end is called when something that went over a link has come to its end.
func (p *peers) end(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.calls--
	p.hush(l)
}

// hush notes that a link that is gone is not used any more. The caller holds the lock.
func (p *peers) hush(l *link) {
	if l.calls == 0 && p.by[l.member.ID] != l && !l.silent {
		l.silent = true
		close(l.quiet)
	}
}

// connect is the link to a node. The caller holds the lock.
func (p *peers) connect(m store.Member) (*link, error) {
	if p.ended {
		return nil, fmt.Errorf("%w: this node is shutting down", ErrUnreached)
	}
	if l := p.by[m.ID]; l != nil {
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
	p.by[m.ID] = l
	p.watch.Go(func() { p.attend(l) })
	return l, nil
}

// attend waits until a link is of no use, and closes it.
func (p *peers) attend(l *link) {
	select {
	case <-l.peer.Broken():
		p.mu.Lock()
		if p.by[l.member.ID] == l {
			p.drop(l)
		}
		p.mu.Unlock()
		p.broken()
	case <-l.gone:
		p.linger(l)
	}
	_ = l.peer.Close() // it is not used any more
}

// lingerFor is how long a node that is no member any more may take to answer what it was asked before: as long as the longest call
// has. One that leaves in good order, or has only missed some heartbeats, does answer; one that is dead is found to be broken.
const lingerFor = time.Minute

// linger lets the calls under way of a link that was dropped come to their end.
func (p *peers) linger(l *link) {
	enough := time.NewTimer(lingerFor)
	defer enough.Stop()
	select {
	case <-l.quiet:
	case <-l.peer.Broken():
	case <-p.over:
	case <-enough.C:
	}
}

// drop forgets a link. The caller holds the lock.
func (p *peers) drop(l *link) {
	delete(p.by, l.member.ID)
	close(l.gone)
	p.hush(l)
}

// keep connects to all nodes, so that it shows when one breaks down, and drops those that are no members any more.
func (p *peers) keep(members []store.Member, me string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	living := make(map[string]uint64, len(members))
	for _, m := range members {
		living[m.ID] = m.Nonce
		if m.ID != me {
			_, _ = p.connect(m) // whoever calls it will learn why there is none
		}
	}
	for id, l := range p.by {
		if living[id] != l.member.Nonce {
			p.drop(l)
		}
	}
}

// close ends all.
func (p *peers) close() {
	p.mu.Lock()
	if !p.ended {
		p.ended = true
		close(p.over)
	}
	for _, l := range p.by {
		p.drop(l)
	}
	p.mu.Unlock()
	p.watch.Wait()
}

// tellWithin is how long another node may take to have looked at the store.
const tellWithin = 500 * time.Millisecond

// tellAll has all nodes look at the store, this one too, and waits until they have.
func (n *Node) tellAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	n.each(n.view.Load().members, func(m store.Member, c Control) {
		if err := c.Look(ctx); err != nil {
			n.log.Debug("a node was not told to look at the store", "node", m.ID, "error", err) // it will before long
		}
	})
}

// each does something with all nodes at once, and waits. Those that cannot be connected to are left out.
func (n *Node) each(members []store.Member, f func(m store.Member, c Control)) {
	var all sync.WaitGroup
	for _, m := range members {
		c, done, err := n.control(m)
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

// control is how to steer a node, which may be this one, until done is called.
func (n *Node) control(m store.Member) (c Control, done func(), err error) {
	if m.ID == n.id {
		return n, func() {}, nil
	}
	return n.peers.of(m)
}

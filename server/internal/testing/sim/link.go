package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/store"
)

// link is one process as a life of another node reaches it: over a network that takes its time, loses its way
// while it is cut, and delivers what it then had when it is whole again, if the connection still stands.
type link struct {
	*peer.Calls
	from, to *life
	broken   chan struct{}
	once     sync.Once
}

var _ cluster.Peer = (*link)(nil)

// Times of connections.
const (
	// aliveEvery and silentFor are how a broken connection is found out without a call.
	aliveEvery = time.Second
	silentFor  = 3 * time.Second
)

// dial is for [cluster.Config].
func (l *life) dial(m store.Member) (cluster.Peer, error) {
	p := &link{from: l, broken: make(chan struct{})}
	for _, n := range l.node.w.nodes {
		if to := n.life(); n.name() == m.Address && to != nil && to.nonce == m.Nonce {
			p.to = to
		}
	}
	if p.to == nil {
		return nil, errors.New("sim: connection refused")
	}
	p.Calls = peer.Over(p, peer.Options{Secret: peer.Secret(macKey()), Now: l.member.StoreNow})
	l.node.w.calls.Go(p.attend)
	return wrap(l.node.w.options.Mutant.Peer, cluster.Peer(p)), nil
}

// actor is that of the way from one node to the other.
func (l *link) actor() int { return actorLink + l.from.node.number*maxNodes + l.to.node.number }

func (l *link) back() int { return actorAnswer + l.to.node.number*maxNodes + l.from.node.number }

// cut reports whether nothing gets through at the moment.
func (l *link) cut() bool {
	return l.from.node.w.cuts.between(l.from.node.number, l.to.node.number)
}

// attend finds out when the connection is of no more use.
func (l *link) attend() {
	defer func() { _ = l.Close() }()
	silent := time.Duration(0)
	for silent < silentFor {
		t := time.NewTimer(aligned(l.actor(), aliveEvery))
		select {
		case <-t.C:
		case <-l.to.over: // its end is told, if the network lets it
			pause(l.actor(), time.Millisecond)
			if !l.cut() {
				return
			}
		case <-l.from.over:
			return
		case <-l.broken:
			return
		}
		t.Stop()
		if l.cut() || l.to.node.gate.closed() != nil {
			silent += aliveEvery
		} else {
			silent = 0
		}
		if l.to.gone() && !l.cut() {
			return
		}
	}
}

// gone reports whether the life is over.
func (l *life) gone() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// Broken is for [cluster.Peer].
func (l *link) Broken() <-chan struct{} { return l.broken }

// Close is for [cluster.Peer].
func (l *link) Close() error {
	l.once.Do(func() { close(l.broken) })
	return nil
}

func (l *link) isBroken() bool {
	select {
	case <-l.broken:
		return true
	default:
		return false
	}
}

// Invoke implements [grpc.ClientConnInterface]: the request crosses as bytes, and so does what comes back.
func (l *link) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	l.from.node.gate.wait()
	switch {
	case l.isBroken() || l.from.store.over():
		return status.Error(codes.Unavailable, "sim: the connection is broken")
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	if f := l.from.node.w.options.Mutant.Wire; f != nil {
		f(args.(proto.Message))
	}
	c, err := newCall(ctx, method, args)
	if err != nil {
		return err
	}
	for _, o := range opts {
		if reached, ok := o.(grpc.PeerCallOption); ok {
			reached.PeerAddr.Addr = &net.IPAddr{} // it may have been written
		}
	}
	l.from.node.w.calls.Go(func() { l.carry(c) })
	select {
	case answer := <-c.done:
		err = answer.into(reply)
	case <-l.broken:
		err = status.Error(codes.Unavailable, "sim: the connection broke")
	case <-ctx.Done():
		err = status.FromContextError(ctx.Err()).Err()
	}
	l.from.node.gate.wait()
	return err
}

// NewStream implements [grpc.ClientConnInterface]; nodes have no streams between them.
func (l *link) NewStream(context.Context, *grpc.StreamDesc, string,
	...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "sim: no streams")
}

// carry takes a call to the other node, and its answer back.
func (l *link) carry(c *call) {
	about := c.hash()
	c.from = fmt.Sprintf("node%d %x", l.from.node.number, about)
	luck := l.from.node.w.chance.now("call", uint64(l.actor()), about)
	if !l.travel(l.actor(), between(luck, 50*time.Microsecond, 3*time.Millisecond)) {
		return
	}
	for l.to.node.gate.closed() != nil { // it waits in the node's buffers
		l.to.node.gate.wait()
		pause(l.actor(), between(luck, 0, time.Millisecond))
	}
	if l.to.gone() {
		return
	}
	a := c.do(l.to.served)
	l.to.node.gate.wait()
	if l.to.gone() {
		return // who is there to answer
	}
	if l.travel(l.back(), between(luck, 50*time.Microsecond, 3*time.Millisecond)) {
		c.done <- a
	}
}

// travel passes the time that a message is on its way: as long as it takes while the network is cut. It
// reports false if the connection broke.
func (l *link) travel(actor int, d time.Duration) bool {
	pause(actor, d)
	for l.cut() && !l.isBroken() {
		pause(actor, 200*time.Millisecond+d)
	}
	return !l.isBroken()
}

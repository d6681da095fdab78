package sim

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/cluster"
	"github.com/carillonhq/carillon/store"
)

// peer is one process as a life of another node reaches it: over a network that takes its time, loses its way while it is cut, and
// delivers what it then had when it is whole again, if the connection still stands.
type peer struct {
	from, to *life
	broken   chan struct{}
	once     sync.Once
}

var _ cluster.Peer = (*peer)(nil)

// Times of connections.
const (
	// aliveEvery and silentFor are how a broken connection is found out without a call.
	aliveEvery = time.Second
	silentFor  = 3 * time.Second
	// notAfter bounds how long after its sender has given up on it a request may be taken: not at all.
	notAfter = 10 * time.Second
)

// dial is for [cluster.Config].
func (l *life) dial(m store.Member) (cluster.Peer, error) {
	p := &peer{from: l, broken: make(chan struct{})}
	for _, n := range l.node.w.nodes {
		if to := n.life(); n.name() == m.Address && to != nil && to.nonce == m.Nonce {
			p.to = to
		}
	}
	if p.to == nil {
		return nil, errors.New("sim: connection refused")
	}
	l.node.w.calls.Go(p.attend)
	return wrap(l.node.w.options.Mutant.Peer, cluster.Peer(p)), nil
}

// actor is that of the way from one node to the other.
func (p *peer) actor() int { return actorLink + p.from.node.number*maxNodes + p.to.node.number }

func (p *peer) back() int { return actorLink + p.to.node.number*maxNodes + p.from.node.number }

// cut reports whether nothing gets through at the moment.
func (p *peer) cut() bool {
	return p.from.node.w.cuts.between(p.from.node.number, p.to.node.number)
}

// attend finds out when the connection is of no more use.
func (p *peer) attend() {
	defer func() { _ = p.Close() }()
	silent := time.Duration(0)
	for silent < silentFor {
		t := time.NewTimer(aligned(p.actor(), aliveEvery))
		select {
		case <-t.C:
		case <-p.to.over: // its end is told, if the network lets it
			pause(p.actor(), time.Millisecond)
			if !p.cut() {
				return
			}
		case <-p.from.over:
			return
		case <-p.broken:
			return
		}
		t.Stop()
		if p.cut() || p.to.node.gate.closed() != nil {
			silent += aliveEvery
		} else {
			silent = 0
		}
		if p.to.gone() && !p.cut() {
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
func (p *peer) Broken() <-chan struct{} { return p.broken }

// Close is for [cluster.Peer].
func (p *peer) Close() error {
	p.once.Do(func() { close(p.broken) })
	return nil
}

func (p *peer) isBroken() bool {
	select {
	case <-p.broken:
		return true
	default:
		return false
	}
}

// answer is what came back.
type answer[T any] struct {
	value T
	err   error
}

// through does a call at the other node.
func through[T any](ctx context.Context, p *peer, what string, f func(ctx context.Context, to *life) (T, error)) (T, error) {
	var none T
	p.from.node.gate.wait()
	switch {
	case p.isBroken() || p.from.sky.over():
		return none, unavailable(false, cluster.ErrUnreached)
	case ctx.Err() != nil:
		return none, unavailable(false, ctx.Err())
	}
	done := make(chan answer[T], 1)
	until := p.from.node.now().Add(notAfter)
	if at, ok := ctx.Deadline(); ok && time.Until(at) < notAfter {
		until = p.from.node.now().Add(time.Until(at))
	}
	p.from.node.w.calls.Go(func() { carry(ctx, p, what, until, f, done) })
	a := answer[T]{}
	select {
	case a = <-done:
	case <-p.broken:
		a.err = unavailable(true, cluster.ErrLost)
	case <-ctx.Done():
		a.err = unavailable(true, ctx.Err())
	}
	p.from.node.gate.wait()
	return a.value, a.err
}

func unavailable(unknown bool, cause error) error {
	return &carillon.Error{Kind: carillon.Unavailable, Unknown: unknown, Message: "sim: the call failed", Err: cause}
}

// carry takes a call to the other node, and its answer back.
func carry[T any](ctx context.Context, p *peer, what string, until time.Time, f func(ctx context.Context, to *life) (T, error),
	done chan<- answer[T],
) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what)) // it takes everything
	luck := p.from.node.w.chance.now("call", uint64(p.actor()), h.Sum64())
	if !p.travel(p.actor(), between(luck, 50*time.Microsecond, 3*time.Millisecond)) {
		return
	}
	for p.to.node.gate.closed() != nil { // it waits in the node's buffers
		p.to.node.gate.wait()
		pause(p.actor(), between(luck, 0, time.Millisecond))
	}
	if p.to.gone() {
		return
	}
	var a answer[T]
	left := until.Sub(p.to.node.now())
	if left <= 0 {
		a.err = unavailable(false, cluster.ErrUnreached)
	} else {
		there, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
		a.value, a.err = f(there, p.to)
		cancel()
	}
	p.to.node.gate.wait()
	if p.to.gone() {
		return // who is there to answer
	}
	if p.travel(p.back(), between(luck, 50*time.Microsecond, 3*time.Millisecond)) {
		done <- a
	}
}

// travel passes the time that a message is on its way: as long as it takes while the network is cut. It reports false if the
// connection broke.
func (p *peer) travel(actor int, d time.Duration) bool {
	pause(actor, d)
	for p.cut() && !p.isBroken() {
		pause(actor, 200*time.Millisecond+d)
	}
	return !p.isBroken()
}

// announce has the other nodes read a namespace's settings again, those that it reaches.
func (l *life) announce(namespace string) {
	for _, n := range l.node.w.nodes {
		to := n.life()
		if to == nil || to == l {
			continue
		}
		p := &peer{from: l, to: to, broken: make(chan struct{})}
		l.node.w.calls.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), announceWithin)
			defer cancel()
			_, _ = through(ctx, p, "announce "+namespace, func(ctx context.Context, to *life) (struct{}, error) {
				return struct{}{}, to.engine.ReloadNamespace(ctx, namespace)
			}) // it learns of it before long
			_ = p.Close()
		})
	}
}

// announceWithin is how long a node may take to read settings again.
const announceWithin = time.Second

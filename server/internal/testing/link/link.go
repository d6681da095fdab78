package link

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Fault is what is wrong with a link.
type Fault int

// The faults.
const (
	None   Fault = iota
	Silent       // nothing passes, and nobody is told
	Broken       // connections are reset, and new ones too
)

// Way is a direction.
type Way int

// The directions.
const (
	There Way = iota // to the target
	Back             // from it
)

// Options of a link.
type Options struct {
	// At is where to listen, host:port; "" = at a free port of the loopback interface.
	At string
	// From names who has connected, for CutFrom; nil: nobody has a name. It is called once for each
	// connection.
	From func(net.Conn) string
}

// Link passes TCP connections on to a target.
type Link struct {
	options  Options
	listener net.Listener
	busy     sync.WaitGroup

	mu     sync.Mutex
	target string
	closed bool
	all    Fault
	from   map[string]Fault
	ways   [2]Fault // by Way
	delay  time.Duration
	pairs  map[*pair]struct{}
	healed chan struct{} // closed at each change of what is wrong
}

// Listen makes a link to a target, host:port. The target need not be there yet: a connection is refused while
// it is not.
func Listen(target string, o Options) (*Link, error) {
	l, err := net.Listen("tcp", cmp.Or(o.At, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", target, err)
	}
	k := &Link{target: target, options: o, listener: l, from: map[string]Fault{}, pairs: map[*pair]struct{}{},
		healed: make(chan struct{})}
	k.busy.Go(k.accept)
	return k, nil
}

// Address is where to connect to, host:port.
func (k *Link) Address() string { return k.listener.Addr().String() }

// Close ends the link and all connections, and waits for both.
func (k *Link) Close() error {
	k.mu.Lock()
	k.closed = true
	err := k.listener.Close()
	pairs := k.open()
	k.changed()
	k.mu.Unlock()
	for _, p := range pairs {
		p.reset()
	}
	k.busy.Wait()
	return err
}

// Cut breaks the link for everybody until [Link.Heal].
func (k *Link) Cut(f Fault) { k.set(func() { k.all = f }) }

// CutFrom breaks it for those whom Options.From calls by the name. [None] heals it for them.
func (k *Link) CutFrom(name string, f Fault) { k.set(func() { k.from[name] = f }) }

// CutWay breaks one direction for everybody until [Link.Heal]. Where it is [Broken], a connection is reset as
// soon as something is to pass in it: with [Back], after the target has answered.
func (k *Link) CutWay(w Way, f Fault) { k.set(func() { k.ways[w] = f }) }

// Heal ends all faults. The delay stays.
func (k *Link) Heal() {
	k.set(func() {
		k.all, k.ways = None, [2]Fault{}
		clear(k.from)
	})
}

// Redirect makes target, host:port, where new connections go, and resets those there are: the service behind
// the link has moved.
func (k *Link) Redirect(target string) {
	k.mu.Lock()
	k.target = target
	pairs := k.open()
	k.mu.Unlock()
	for _, p := range pairs {
		p.reset()
	}
}

// Delay is how long what is sent from now on takes, each way.
func (k *Link) Delay(d time.Duration) { k.set(func() { k.delay = d }) }

// set changes what is wrong, and resets the connections that it breaks.
func (k *Link) set(change func()) {
	k.mu.Lock()
	change()
	k.changed()
	var broken []*pair
	for _, p := range k.open() {
		if k.fault(p.from) == Broken {
			broken = append(broken, p)
		}
	}
	k.mu.Unlock()
	for _, p := range broken {
		p.reset()
	}
}

// changed wakes those who wait for the end of a fault.
func (k *Link) changed() {
	close(k.healed)
	k.healed = make(chan struct{})
}

func (k *Link) open() []*pair {
	out := make([]*pair, 0, len(k.pairs))
	for p := range k.pairs {
		out = append(out, p)
	}
	return out
}

// fault is what is wrong for one who has connected.
func (k *Link) fault(from string) Fault { return max(k.all, k.from[from]) }

// await waits until nothing is wrong with the given directions for one who has connected; false: the
// connection is to end.
func (k *Link) await(from string, end <-chan struct{}, ways ...Way) bool {
	for {
		k.mu.Lock()
		f, closed, changed := k.fault(from), k.closed, k.healed
		for _, w := range ways {
			f = max(f, k.ways[w])
		}
		k.mu.Unlock()
		switch {
		case closed || f == Broken:
			return false
		case f == None:
			return true
		}
		select {
		case <-changed:
		case <-end:
			return false
		}
	}
}

func (k *Link) accept() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return // it was closed
		}
		k.busy.Go(func() { k.serve(conn) })
	}
}

// dialWithin is how long the target may take to accept a connection.
const dialWithin = 5 * time.Second

// serve passes a connection on.
func (k *Link) serve(near net.Conn) {
	p := &pair{link: k, near: near, ended: make(chan struct{})}
	if k.options.From != nil {
		p.from = k.options.From(near)
	}
	if !k.enter(p) {
		p.reset()
		return
	}
	defer k.leave(p)
	if !k.await(p.from, p.ended) {
		p.reset()
		return
	}
	k.mu.Lock()
	target := k.target
	k.mu.Unlock()
	far, err := (&net.Dialer{Timeout: dialWithin}).DialContext(context.Background(), "tcp", target)
	if err != nil || !p.reach(far) {
		p.reset()
		return
	}
	p.pass()
}

// enter notes a connection, unless the link is closed.
func (k *Link) enter(p *pair) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.pairs[p] = struct{}{}
	return true
}

func (k *Link) leave(p *pair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pairs, p)
}

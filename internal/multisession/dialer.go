package multisession

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/reconnect"
)

// dialer opens sessions with nodes. The session's lock guards it.
type dialer struct {
	life      context.Context // of attempts to connect
	connect   connectFunc
	connected func(d *dial, s carillon.Session) // called without the lock

	dials    map[string]*dial             // by address
	backoffs map[string]reconnect.Backoff // by address
}

// dial is one attempt, with retries, to open a session with a node.
type dial struct {
	address string
	life    context.Context
	stop    context.CancelFunc
}

// connectFunc opens a session with the node at an address.
type connectFunc func(ctx context.Context, address string) (carillon.Session, error)

func newDialer(life context.Context, connect connectFunc, connected func(*dial, carillon.Session)) *dialer {
	return &dialer{
		life: life, connect: connect, connected: connected,
		dials: map[string]*dial{}, backoffs: map[string]reconnect.Backoff{},
	}
}

// start connects a node, unless it is being connected.
func (d *dialer) start(address string) {
	if d.dials[address] != nil {
		return
	}
	l := &dial{address: address}
	l.life, l.stop = context.WithCancel(d.life)
	d.dials[address] = l
	go d.run(l, d.backoffs[address])
}

// run retries until it succeeds or nobody wants the node any more.
func (d *dialer) run(l *dial, backoff reconnect.Backoff) {
	defer l.stop()
	for ; l.life.Err() == nil; backoff = backoff.Next() {
		session, err := reconnect.Connect(l.life, backoff, func(ctx context.Context) (carillon.Session, error) {
			return d.connect(ctx, l.address)
		})
		if err == nil {
			d.connected(l, session)
			return
		}
	}
}

// finish ends an attempt that has succeeded. It reports whether its node is still wanted.
func (d *dialer) finish(l *dial) (wanted bool) {
	if wanted = d.dials[l.address] == l; wanted {
		delete(d.dials, l.address)
	}
	return wanted
}

// lost records the end of a session: the sooner sessions with a node end, the longer the next attempt waits.
func (d *dialer) lost(address string, lasted time.Duration) {
	d.backoffs[address] = d.backoffs[address].Lost(lasted)
}

// keep stops to connect nodes at other addresses.
func (d *dialer) keep(addresses map[string]bool) {
	for address, l := range d.dials {
		if !addresses[address] {
			l.stop()
			delete(d.dials, address)
		}
	}
}

// stop stops all attempts.
func (d *dialer) stop() { d.keep(nil) }

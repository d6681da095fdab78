package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

const (
	// maxChannels is how many exchanges and routing keys have a channel of a connection at a time. An idle one
	// gives way; while none is, messages to others wait for another connection.
	maxChannels = 256
	// frameBytes is the largest frame that is asked for, RabbitMQ's default.
	frameBytes = 128 << 10
	// farewell is how long the broker may take to agree that a connection is closed.
	farewell = time.Second
	// notices is room for what the broker says, between two looks at it.
	notices = 16
)

// link is one connection, also while it is being made. When it is lost, so are its channels. Which links
// there are is decided in links.go.
type link struct {
	c    *Client
	down chan struct{} // closed when the link is lost; why says how
	why  error
	conn *amqp091.Connection // nil before there is one, as is wire
	wire *wire

	blocked atomic.Pointer[error] // why nothing may be sent; nil: it may
	working sync.WaitGroup        // channels

	// guarded by c.mu
	channels map[target]*channel
	room     int                // for channels; 0: there is no connection yet
	waiting  map[target][]entry // for a channel, since none is idle
	turns    []turn             // of waiting, first come, first served
	uses     uint64
	seen     uint64 // uses, when it was looked at last whether the link is still needed
}

// turn is that of a target to get a channel.
type turn struct {
	to    target
	since time.Time
}

func newLink(c *Client) *link {
	return &link{c: c, down: make(chan struct{}), channels: map[target]*channel{},
		waiting: map[target][]entry{}}
}

// queue puts a message into the queue of its channel, or has it wait for one. c.mu is held.
func (l *link) queue(p entry) {
	to := targetOf(&p.b.ms[p.i])
	ch := l.channels[to]
	if ch == nil && len(l.waiting[to]) == 0 {
		ch = l.add(to)
	}
	if ch != nil {
		ch.put(p)
		return
	}
	if len(l.waiting[to]) == 0 {
		l.turns = append(l.turns, turn{to, time.Now()})
		l.c.growLater()
	}
	l.waiting[to] = append(l.waiting[to], p)
}

// admit gives channels to those who wait for one, first come, first served. c.mu is held.
func (l *link) admit() {
	for len(l.turns) > 0 {
		to := l.turns[0].to
		ch := l.add(to)
		if ch == nil {
			return
		}
		for _, p := range l.waiting[to] {
			ch.put(p)
		}
		delete(l.waiting, to)
		l.turns = l.turns[1:]
		ch.nudge()
	}
}

// add makes the channel of a target; nil: so many are in use. c.mu is held.
func (l *link) add(to target) *channel {
	if len(l.channels) >= l.room && !l.retire() {
		return nil
	}
	ch := &channel{link: l, to: to, caution: cautious, wake: make(chan struct{}, 1),
		retired: make(chan struct{})}
	l.channels[to] = ch
	l.working.Go(ch.run)
	return ch
}

// retire ends the idle channel that was used least recently; false: none is idle. c.mu is held.
func (l *link) retire() bool {
	var oldest *channel
	for _, ch := range l.channels {
		if ch.idle && (oldest == nil || ch.used < oldest.used) {
			oldest = ch
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.channels, oldest.to)
	close(oldest.retired)
	return true
}

// run connects, and keeps the link until it is lost or the client is closed.
func (l *link) run() {
	err := l.c.connect(l)
	if err == nil {
		err = l.keep()
	}
	l.c.mu.Lock()
	l.c.drop(l)
	if l.room == 0 {
		l.c.takeBack(l)
	}
	l.c.mu.Unlock()
	l.why = err
	close(l.down)
	l.failWaiting(err)
	if l.conn != nil {
		l.end(l.c.ctx.Err() != nil || errors.Is(err, errSpare))
	}
	l.working.Wait()
}

// keep returns why the link was lost.
func (l *link) keep() error {
	lost := l.conn.NotifyClose(make(chan *amqp091.Error, 1))
	blocks := l.conn.NotifyBlocked(make(chan amqp091.Blocking, notices))
	l.c.mu.Lock()
	l.room = min(maxChannels, max(1, int(l.conn.Config.ChannelMax)/2)) // while one gives way there are two
	l.admit()
	l.c.mu.Unlock()
	look := time.NewTicker(l.c.spareAfter)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if l.c.dropSpare(l) {
				return errSpare
			}
		case b, open := <-blocks:
			if !open {
				blocks = nil // lost says why
				continue
			}
			l.block(b)
		case e := <-lost:
			if e == nil {
				return errors.New("the connection was closed")
			}
			return fmt.Errorf("the connection was lost: %w", e)
		case <-l.c.ctx.Done():
			return errClosed
		}
	}
}

// failWaiting settles what waits for a channel.
func (l *link) failWaiting(why error) {
	l.c.mu.Lock()
	all := l.waiting
	l.waiting, l.turns = map[target][]entry{}, nil
	l.c.mu.Unlock()
	for _, ps := range all {
		for _, p := range ps {
			p.b.fail(p.i, why)
		}
	}
}

// block notes whether the broker takes messages, and has those who wait told.
func (l *link) block(b amqp091.Blocking) {
	if !b.Active {
		l.blocked.Store(nil)
		return
	}
	err := fmt.Errorf("the broker takes no messages at present (connection.blocked): %s", b.Reason)
	l.blocked.Store(&err)
	l.failWaiting(err)
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for _, ch := range l.channels {
		ch.nudge()
	}
}

// end closes the connection: with a goodbye if the client does it, at once if it was lost. A write that is
// stuck holds locks of the library, and ends with the socket.
func (l *link) end(politely bool) {
	if politely {
		late := time.AfterFunc(farewell, func() { _ = l.wire.Close() })
		defer late.Stop()
		_ = l.conn.Close() // it may be lost: so be it
	}
	_ = l.wire.Close() // same
}

// connect reaches one of the broker's addresses.
func (c *Client) connect(l *link) error {
	var all []error
	first := int(c.first.Load())
	for i := range c.options.Addresses {
		n := (first + i) % len(c.options.Addresses)
		address := c.options.Addresses[n]
		err := c.reach(l, address)
		if err == nil {
			c.first.Store(int32(n))
			return nil
		}
		all = append(all, fmt.Errorf("connect to %s: %w", address, err))
	}
	return errors.Join(all...)
}

func (c *Client) reach(l *link, address string) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.options.ConnectTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if conn, err = c.secure(ctx, conn, address); err != nil {
		return err
	}
	w := &wire{Conn: conn, timeout: c.writeTimeout}
	late := context.AfterFunc(ctx, func() { _ = w.Close() }) // the library's handshake has no other end
	l.conn, err = amqp091.Open(w, c.config())
	if !late() && err == nil {
		err = cmp.Or(context.Cause(ctx), context.DeadlineExceeded)
	}
	if err != nil {
		l.conn = nil
		_ = w.Close() // it was of no use
		if ctx.Err() != nil {
			return fmt.Errorf("no login within %v: %w", c.options.ConnectTimeout, context.Cause(ctx))
		}
		return err
	}
	l.wire = w
	return nil
}

// secure begins TLS, if it is wanted.
func (c *Client) secure(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	if c.options.TLS == nil {
		return conn, nil
	}
	settings := c.options.TLS.Clone()
	if settings.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		settings.ServerName = host
	}
	secured := tls.Client(conn, settings)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // it was of no use
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, nil
}

// config is the library's, made for each connection: it changes it.
func (c *Client) config() amqp091.Config {
	var login amqp091.Authentication = &amqp091.ExternalAuth{}
	if c.options.Mechanism == Plain {
		login = &amqp091.PlainAuth{Username: c.options.Username, Password: c.options.Password}
	}
	about := amqp091.Table{"product": "Carillon", "connection_name": c.options.Name}
	return amqp091.Config{SASL: []amqp091.Authentication{login}, Vhost: c.options.VirtualHost,
		ChannelMax: 2 * maxChannels, FrameSize: frameBytes, Heartbeat: c.options.Heartbeat, Properties: about,
		Locale: "en_US"}
}

package natsbroker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Options configure a client.
type Options struct {
	Addresses   []string // host:port of servers of one cluster, at least one
	TLS         *tls.Config
	User        string
	Password    string
	Credentials string // the content of a .creds file, in place of a user and a password
	// Core publishes without JetStream: a message that was received is acknowledged, although nobody keeps it.
	Core bool
}

// Timeouts.
const (
	connectTimeout = 5 * time.Second // of one address
	writeTimeout   = 10 * time.Second
	pingInterval   = 10 * time.Second // a server that does not answer two is away
)

// Client publishes to the servers of a NATS cluster. It is a [broker.Client].
type Client struct {
	options []nats.Option
	servers string
	core    bool
	stop    context.Context
	end     context.CancelFunc

	mu      sync.Mutex
	conn    *conn    // nil: none
	dialing *dialing // nil: nobody does
	closed  bool
	work    sync.WaitGroup // of goroutines and batches
}

// dialing is an attempt to connect, for all who wait for it.
type dialing struct {
	over chan struct{} // closed at its end
	conn *conn
	err  error
}

// New returns a client. It connects at the first publish.
func New(o Options) (*Client, error) {
	if len(o.Addresses) == 0 {
		return nil, errors.New("addresses: there is none; give host:port, for example localhost:4222")
	}
	for i, a := range o.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("addresses[%d]: %q is not host:port; write for example localhost:4222", i, a)
		}
	}
	switch {
	case o.Credentials != "" && o.User != "":
		return nil, errors.New("credentials_file: there is a user, too; give one of them")
	case o.User == "" && o.Password != "":
		return nil, errors.New("password_file: there is no user")
	}
	c := &Client{servers: strings.Join(o.Addresses, ","), core: o.Core}
	c.stop, c.end = context.WithCancel(context.Background())
	c.options = []nats.Option{nats.Name("carillon"), nats.NoReconnect(), nats.Timeout(connectTimeout),
		nats.FlusherTimeout(writeTimeout), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(2),
		nats.SetCustomDialer(dialer{c.stop})}
	if o.TLS != nil {
		c.options = append(c.options, nats.Secure(o.TLS))
	}
	if o.User != "" {
		c.options = append(c.options, nats.UserInfo(o.User, o.Password))
	}
	if o.Credentials != "" {
		c.options = append(c.options, nats.UserCredentialBytes([]byte(o.Credentials)))
	}
	return c, nil
}

// dialer dials until its context ends.
type dialer struct{ ctx context.Context }

// Dial implements [nats.CustomDialer].
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: connectTimeout}).DialContext(d.ctx, network, address)
}

// Publish implements [broker.Client].
func (c *Client) Publish(ctx context.Context, ms []broker.Message, done func(i int, err error)) {
	conn, err := c.enter(ctx)
	if err == nil && ctx.Err() != nil {
		c.work.Done()
		err = ctx.Err()
	}
	if err != nil {
		for i := range ms {
			done(i, fmt.Errorf("%w: %w", broker.ErrUnsent, err))
		}
		return
	}
	conn.publish(ctx, ms, done)
}

// enter returns the connection, made if there is none, for a batch that Close waits for.
func (c *Client) enter(ctx context.Context) (conn *conn, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errors.New("the client is closed")
	}
	c.work.Add(1)
	if c.conn != nil && c.conn.nc.IsConnected() {
		defer c.mu.Unlock()
		return c.conn, nil
	}
	d := c.dialing
	if d == nil {
		d = &dialing{over: make(chan struct{})}
		c.dialing = d
		c.work.Go(func() { c.dial(d) })
	}
	c.mu.Unlock()
	select {
	case <-d.over:
		conn, err = d.conn, d.err
	case <-ctx.Done():
		err = fmt.Errorf("no connection in time: %w", ctx.Err())
	}
	if err != nil {
		c.work.Done()
		return nil, err
	}
	return conn, nil
}

// dial connects, for those who wait for d.
func (c *Client) dial(d *dialing) {
	d.conn, d.err = newConn(c)
	c.mu.Lock()
	c.dialing = nil
	if d.err == nil && c.closed {
		d.conn.nc.Close()
		d.conn, d.err = nil, errors.New("the client is closed")
	}
	c.conn = d.conn
	c.mu.Unlock()
	close(d.over)
}

// run runs f on a goroutine that Close waits for, or at once if the client is closed.
func (c *Client) run(f func()) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.work.Go(f)
	}
	c.mu.Unlock()
	if closed {
		f()
	}
}

// Close implements [broker.Client].
func (c *Client) Close() error {
	c.mu.Lock()
	conn := c.conn
	c.closed = true
	c.mu.Unlock()
	c.end()
	if conn != nil {
		conn.nc.Close()
		conn.fail(errors.New("connection: closed"))
		<-conn.closed
	}
	c.work.Wait()
	return nil
}

package redis

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// dialTimeout is how long a connection may take to be made.
const dialTimeout = 5 * time.Second

// topologyEvery is how often sentinels are asked who the primary is, besides being told when that changes.
const topologyEvery = time.Second

// mostRedirects is how often servers of a cluster may send a call on, one to the other: while a slot is moved
// twice, and for ever where they do not agree who has it.
const mostRedirects = 16

// client is how the library is to connect.
func (o *Options) client(w *wires) rueidis.ClientOption {
	c := rueidis.ClientOption{
		InitAddress: o.Addresses, Username: o.Username, Password: o.Password, SelectDB: o.Database,
		TLSConfig: o.TLS, ClientName: "carillon", Dialer: net.Dialer{Timeout: dialTimeout},
		ConnWriteTimeout: o.Timeout, DialCtxFn: w.dial, DisableCache: true, PipelineMultiplex: connections,
		ClusterOption: rueidis.ClusterOption{MaxMovedRedirections: mostRedirects},
	}
	if o.Sentinel != "" {
		c.Sentinel = rueidis.SentinelOption{MasterSet: o.Sentinel, TLSConfig: o.TLS, Dialer: c.Dialer,
			ClientName: c.ClientName, TopologyRefreshInterval: topologyEvery}
		if o.SentinelLogin {
			c.Sentinel.Username, c.Sentinel.Password = o.Username, o.Password
		}
	}
	return c
}

// wires are the connections that there are.
type wires struct {
	mu  sync.Mutex
	all map[*wire]struct{}
}

// wire is a connection that is forgotten when it is closed.
type wire struct {
	net.Conn
	of *wires
}

// Close closes the connection.
func (w *wire) Close() error {
	w.of.mu.Lock()
	delete(w.of.all, w)
	w.of.mu.Unlock()
	return w.Conn.Close()
}

// dial makes a connection.
func (w *wires) dial(ctx context.Context, address string, d *net.Dialer,
	secure *tls.Config) (net.Conn, error) {
	dial := d.DialContext
	if secure != nil {
		dial = (&tls.Dialer{NetDialer: d, Config: secure}).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	one := &wire{conn, w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*wire]struct{}{}
	}
	w.all[one] = struct{}{}
	return one, nil
}

// heed closes all connections where a server answers that it has become a replica. It keeps them open, and
// whoever has taken its place is behind the same name or address, or the sentinels know it: new connections
// find it.
func (w *wires) heed(err error) {
	answer, ok := answerOf(err)
	if !ok || !strings.HasPrefix(answer.Error(), "READONLY") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		_ = one.Conn.Close() // of a server that cannot be used
	}
	clear(w.all)
}

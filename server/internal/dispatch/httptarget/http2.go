package httptarget

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// http2Conns holds the connections on which TLS negotiated HTTP/2, one for each authority.
//
// net/http's own HTTP/2 transport replays requests by itself: after GOAWAY and REFUSED_STREAM, by which a
// target declares that it has not read them, but also after a stream's PROTOCOL_ERROR, which declares nothing
// of the kind. An [http.ClientConn] replays nothing. So each connection is one, and whether to send again is
// decided here.
type http2Conns struct {
	transport *http.Transport // turns network connections into client connections

	mu     sync.Mutex
	conns  map[string]*http2Conn // by authority
	closed bool
}

// agreedKey is the context key of the network connection that [http2Conns.transport] is to use.
type agreedKey struct{}

func newHTTP2Conns() *http2Conns {
	return &http2Conns{
		conns: map[string]*http2Conn{},
		transport: &http.Transport{
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return ctx.Value(agreedKey{}).(net.Conn), nil
			},
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			IdleConnTimeout:        idleTimeout,
			MaxResponseHeaderBytes: MaxResponseHeader,
			// nothing more of a body is read
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: MaxResponseRead},
		},
	}
}

// upgrade is the [http.Transport.TLSNextProto] of "h2".
func (h *http2Conns) upgrade(authority string, raw *tls.Conn) http.RoundTripper {
	made, err := h.transport.NewClientConn(context.WithValue(context.Background(), agreedKey{},
		net.Conn(raw)), "https", authority)
	if err != nil {
		_ = raw.Close()
		return noConn{err}
	}
	c := &http2Conn{conn: made, meter: raw.NetConn().(*meter)} // dialTLS made it
	shared, err := h.share(authority, c)
	if shared != c {
		_ = made.Close() // another connection was ready first
	}
	if err != nil {
		return noConn{err}
	}
	return shared
}

// share makes c the connection of an authority, unless it has one that can take requests.
func (h *http2Conns) share(authority string, c *http2Conn) (*http2Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, net.ErrClosed
	}
	if old := h.conns[authority]; old != nil && !old.gone.Load() && old.conn.Err() == nil {
		return old, nil
	}
	h.conns[authority] = c
	c.conn.SetStateHook(func(conn *http.ClientConn) {
		if conn.Err() != nil {
			go h.forget(authority, c) // share may be on the stack below the hook
		}
	})
	return c, nil
}

// forget drops a closed connection.
func (h *http2Conns) forget(authority string, c *http2Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[authority] == c {
		delete(h.conns, authority)
	}
}

// close closes the connections, and those that are still being opened.
func (h *http2Conns) close() {
	h.mu.Lock()
	conns := h.conns
	h.conns, h.closed = nil, true
	h.mu.Unlock()
	for _, c := range conns {
		_ = c.conn.Close()
	}
}

// http2Conn sends requests on one connection, and decides for failed ones whether another connection may be
// tried.
type http2Conn struct {
	conn     *http.ClientConn
	meter    *meter
	answered atomic.Bool // at least once; what fails before may fail on every connection
	gone     atomic.Bool // it takes no more requests
}

// RoundTrip implements [http.RoundTripper].
func (c *http2Conn) RoundTrip(req *http.Request) (*http.Response, error) {
	c.meter.begin()
	resp, err := c.conn.RoundTrip(req)
	if err == nil {
		c.answered.Store(true)
		resp.Body = &meteredBody{ReadCloser: resp.Body, end: sync.OnceFunc(c.meter.end)}
		return resp, nil
	}
	c.meter.end()
	s, ok := req.Context().Value(sendingKey{}).(*sending)
	if !ok || req.Context().Err() != nil {
		return nil, err
	}
	if !s.headers.Load() {
		if !c.answered.Load() {
			return nil, err
		}
		c.gone.Store(true)
		return nil, &otherConnError{err}
	}
	if err.Error() == errGoAway && s.unread < maxUnread {
		s.unread++
		s.headers.Store(false)
		c.gone.Store(true)
		return nil, &otherConnError{err}
	}
	if reset, ok := errors.AsType[streamError](err); ok && reset.Code == codeRefusedStream {
		return nil, errRefusedStream
	}
	return nil, err
}

// meteredBody ends its attempt on a meter when it is closed.
type meteredBody struct {
	io.ReadCloser
	end func()
}

// Close implements [io.Closer].
func (b *meteredBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// errGoAway is the error text of net/http when a GOAWAY excludes a request: the target promises that it was
// not and will not be processed (RFC 9113, section 6.8). The error has no other mark. Should the text ever
// change, such an attempt fails instead of being sent again, and TestGoAwaySendsAgain detects it.
const errGoAway = "http2: Transport received Server's graceful shutdown GOAWAY"

// maxUnread is how often an attempt is sent again because the target declares that it has not read it.
const maxUnread = 2

// codeRefusedStream is REFUSED_STREAM (RFC 9113, section 7).
const codeRefusedStream = 7

// streamError has the form in which net/http exposes a stream's error.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error implements error.
func (e streamError) Error() string { return fmt.Sprintf("stream %d: error %d", e.StreamID, e.Code) }

// errRefusedStream reports that the target had no room for a request and has not read it.
var errRefusedStream = errors.New("the target refused the request without reading it (HTTP/2 REFUSED_STREAM)")

// otherConnError makes net/http stop using a connection and try the request on another one.
type otherConnError struct{ error }

func (e *otherConnError) Unwrap() error { return e.error }

// IsHTTP2NoCachedConnError is the method that net/http looks for.
func (*otherConnError) IsHTTP2NoCachedConnError() {}

// noConn is what [http2Conns.upgrade] returns in place of a connection.
type noConn struct{ err error }

// RoundTrip implements [http.RoundTripper].
func (n noConn) RoundTrip(*http.Request) (*http.Response, error) { return nil, n.err }

// RoundTripErr tells net/http of the error before it sends a request.
func (n noConn) RoundTripErr() error { return n.err }

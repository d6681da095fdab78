package httptarget

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// sending watches one attempt pass through net/http and allows it to be written once.
//
// net/http sends a request again on another connection when the one it was written to breaks before an answer, if the
// request looks idempotent to it; ours always does, because it has an Idempotency-Key. A target that reads requests and
// closes its connections would get one attempt as often as there are idle connections. So a second connection is only
// given to an attempt of which not one byte was written to the first. That happens to every connection that a target has
// closed while it was idle, and nobody else could repeat it without costing the run an attempt.
//
// On HTTP/1 a connection belongs to one request at a time, so its count of written bytes tells. Requests on HTTP/2 share
// one; [http2Conn] decides there.
type sending struct {
	end     context.CancelCauseFunc
	now     func() time.Time
	conn    *conn       // chosen last, HTTP/1
	before  int64       // what had been written to conn when it was chosen
	headers atomic.Bool // the headers have been given to an HTTP/2 connection
	unread  int         // times that an HTTP/2 target has said that it will not read the request
	trace   httptrace.ClientTrace
}

// sendingKey is the key of a context's *sending.
type sendingKey struct{}

// watch makes the context of an attempt's request; end ends it.
func watch(ctx context.Context, end context.CancelCauseFunc, now func() time.Time) (context.Context, *sending) {
	s := &sending{end: end, now: now}
	s.trace = httptrace.ClientTrace{GetConn: s.getConn, GotConn: s.gotConn, WroteHeaders: s.wroteHeaders}
	return httptrace.WithClientTrace(context.WithValue(ctx, sendingKey{}, s), &s.trace), s
}

// spent reports whether the target may have read the request.
func (s *sending) spent() bool { return s.conn != nil && s.conn.written.Load() != s.before }

// getConn ends an attempt that is about to be replayed, so that no connection is dialled for it.
func (s *sending) getConn(string) {
	if s.spent() {
		s.end(errBroken)
	}
}

// gotConn is told which connection the request will be written to, before it is. An ended context alone would not do: an
// idle connection may still be chosen, and would be written to at the same time as the context is looked at.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	c, ok := info.Conn.(*conn)
	if !ok {
		return
	}
	switch {
	case s.spent():
		c.refused.Store(true)
		s.end(errBroken)
		return
	case info.Reused && c.stale(s.now()):
		c.refused.Store(true) // nothing will have been written, so net/http goes on to the next
	}
	s.conn, s.before = c, c.written.Load()
}

func (s *sending) wroteHeaders() { s.headers.Store(true) }

// answered keeps in mind how long the target keeps the connection of an answer open.
func (s *sending) answered(h http.Header) {
	if s.conn == nil {
		return
	}
	if keep, ok := keepAlive(h.Get("Keep-Alive")); ok {
		s.conn.retire.Store(s.now().Add(max(0, keep-keepAliveMargin)).UnixNano())
	}
}

// conn counts what is written to a connection of HTTP/1.
type conn struct {
	net.Conn

	written atomic.Int64
	refused atomic.Bool  // nothing may be written any more
	retire  atomic.Int64 // Unix nanoseconds: the target may close it at any time after; 0 if it has not said so
}

// Write implements [net.Conn]. Over TLS a count of 0 with an error means that no whole record was written, so that the
// target cannot have decrypted anything.
func (c *conn) Write(p []byte) (int, error) {
	if c.refused.Load() {
		return 0, errBroken
	}
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// stale reports whether the target may be closing the connection.
func (c *conn) stale(now time.Time) bool {
	at := c.retire.Load()
	return at != 0 && now.UnixNano() >= at
}

// counted makes a dialler's connections count.
func counted(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c}, nil
	}
}

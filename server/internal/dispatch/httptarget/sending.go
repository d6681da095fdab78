package httptarget

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// sending follows one attempt through net/http and makes sure that it is written only once.
//
// When a connection breaks before an answer, net/http sends the request again on another one if it looks
// idempotent; ours always does, because it has an Idempotency-Key. A target that reads requests and closes
// its connections would get one attempt as often as there are idle connections. So an attempt gets a second
// connection only if not one byte of it was written to the first. That happens with every connection that a
// target closed while it was idle, and only net/http can then repeat the request without using an attempt of
// the run.
//
// On HTTP/1 a connection belongs to one request at a time, so its count of written bytes tells. HTTP/2
// requests share a connection; [http2Conn] decides for them.
type sending struct {
	end     context.CancelCauseFunc
	now     func() time.Time
	conn    *conn       // chosen last, HTTP/1
	before  int64       // bytes written to conn before it was chosen
	headers atomic.Bool // the headers were given to an HTTP/2 connection
	unread  int         // how often an HTTP/2 target declared the request unread
	trace   httptrace.ClientTrace
}

// sendingKey is the context key of a *sending.
type sendingKey struct{}

// watch returns the context of an attempt's request; end ends it.
func watch(ctx context.Context, end context.CancelCauseFunc,
	now func() time.Time) (context.Context, *sending) {
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

// gotConn is called with the connection that the request will be written to, before it is written. Ending the
// context alone would not do: an idle connection may still be chosen, and written to while the context is
// checked.
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
		c.refused.Store(true) // nothing is written, so net/http tries the next one
	}
	s.conn, s.before = c, c.written.Load()
}

func (s *sending) wroteHeaders() { s.headers.Store(true) }

// answered records how long the target keeps the connection of an answer open.
func (s *sending) answered(h http.Header) {
	if s.conn == nil {
		return
	}
	if keep, ok := keepAlive(h.Get("Keep-Alive")); ok {
		s.conn.retire.Store(s.now().Add(max(0, keep-keepAliveMargin)).UnixNano())
	}
}

// conn counts the bytes written to an HTTP/1 connection.
type conn struct {
	net.Conn

	written atomic.Int64
	refused atomic.Bool  // nothing may be written any more
	retire  atomic.Int64 // Unix nanoseconds; from then on the target may close it. 0: not known
}

// Write implements [net.Conn]. Over TLS, a count of 0 with an error means that no whole record was written,
// so the target cannot have decrypted anything.
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

// counted returns a dialler whose connections count what is written.
func counted(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c}, nil
	}
}

package httptarget

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/carillonhq/carillon"
)

// http2Endpoint is a server of HTTP/2 that counts the requests it has read whole and handles each one as it
// likes.
type http2Endpoint struct {
	listener net.Listener
	handle   func(n int64, s stream)
	read     atomic.Int64
	used     atomic.Int64 // connections on which a request came; net/http may dial some that it does not use
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// stream is a request that an http2Endpoint has read.
type stream struct {
	id     uint32
	frames *http2.Framer
	conn   net.Conn
}

func (s stream) answer() { s.headers(true) }

// begin answers with headers only: a body is to follow.
func (s stream) begin() { s.headers(false) }

func (s stream) headers(last bool) {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = s.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: block.Bytes(),
		EndHeaders: true, EndStream: last})
}

func newHTTP2Endpoint(t *testing.T, handle func(n int64, s stream)) (*http2Endpoint, *fakeSink) {
	t.Helper()
	secure, trusting := certified(t, "h2")
	l, err := tls.Listen("tcp", "127.0.0.1:0", secure)
	if err != nil {
		t.Fatal(err)
	}
	e := &http2Endpoint{listener: l, handle: handle}
	e.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, c)
			e.mu.Unlock()
			e.serving.Go(func() { e.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		e.closeAll()
		e.serving.Wait()
	})
	return e, open(t, New(Options{Allow: loopback, TLS: trusting}))
}

func (e *http2Endpoint) closeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		_ = c.Close()
	}
	e.conns = nil
}

func (e *http2Endpoint) url() string { return "https://" + e.listener.Addr().String() + "/" }

func (e *http2Endpoint) serve(c net.Conn) {
	defer c.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	frames := http2.NewFramer(c, c)
	_ = frames.WriteSettings()
	first := sync.OnceFunc(func() { e.used.Add(1) })
	for {
		f, err := frames.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = frames.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			first()
			if f.StreamEnded() {
				e.handle(e.read.Add(1), stream{f.StreamID, frames, c})
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				e.handle(e.read.Add(1), stream{f.StreamID, frames, c})
			}
		}
	}
}

// each delivers one attempt of each method, with and without a body, on a connection that has answered
// before.
func each(t *testing.T, handle func(s stream), judge func(t *testing.T, requests int64, r carillon.Result)) {
	t.Helper()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"} {
		for _, body := range []string{"", "x"} {
			t.Run(fmt.Sprintf("%s %q", method, body), func(t *testing.T) {
				e, d := newHTTP2Endpoint(t, func(n int64, s stream) {
					if n == 1 {
						s.answer()
						return
					}
					handle(s)
				})
				if r := d.do(t, newDelivery(1, e.url())); r.Outcome != carillon.OutcomeSuccess {
					t.Fatalf("%+v", r.Result)
				}
				v := newDelivery(2, e.url())
				v.Target.HTTP.Method, v.Run.Data.Bytes = method, []byte(body)
				r := d.do(t, v)
				judge(t, e.read.Load()-1, r.Result)
			})
		}
	}
}

// TestProtocolErrorIsNoReplay has a target that resets the stream of a request that it has read. net/http's
// own HTTP/2 would send it again.
func TestProtocolErrorIsNoReplay(t *testing.T) {
	each(t, func(s stream) { _ = s.frames.WriteRSTStream(s.id, http2.ErrCodeProtocol) }, failsOnce)
}

// TestLostConnIsNoReplay has a target that closes the connection after it has read a request.
func TestLostConnIsNoReplay(t *testing.T) {
	each(t, func(s stream) { _ = s.conn.Close() }, failsOnce)
}

// TestLateGoAwayIsNoReplay has a target that goes away after it has taken a request, and closes without an
// answer.
func TestLateGoAwayIsNoReplay(t *testing.T) {
	each(t, func(s stream) {
		_ = s.frames.WriteGoAway(s.id, http2.ErrCodeNo, nil)
		_ = s.conn.Close()
	}, failsOnce)
}

func failsOnce(t *testing.T, requests int64, r carillon.Result) {
	t.Helper()
	if requests != 1 || r.Outcome != 0 || r.Permanent || !strings.HasPrefix(r.Message, "connection: ") {
		t.Fatalf("%d requests for one attempt: %+v", requests, r)
	}
}

// TestRefusedStreamIsOneRequest has a target that has no room for a request.
func TestRefusedStreamIsOneRequest(t *testing.T) {
	each(t, func(s stream) { _ = s.frames.WriteRSTStream(s.id, http2.ErrCodeRefusedStream) },
		func(t *testing.T, requests int64, r carillon.Result) {
			if requests != 1 || r.Outcome != 0 || r.Permanent || !strings.Contains(r.Message, "REFUSED_STREAM") {
				t.Fatalf("%d requests for one attempt: %+v", requests, r)
			}
		})
}

// TestRefusedStreamSlowsDown tells that it is an answer like 503.
func TestRefusedStreamSlowsDown(t *testing.T) {
	e, d := newHTTP2Endpoint(t, func(_ int64, s stream) {
		_ = s.frames.WriteRSTStream(s.id, http2.ErrCodeRefusedStream)
	})
	v := newDelivery(1, e.url())
	d.do(t, v)
	if n := d.slots(v.Queue); n != 0 {
		t.Fatalf("%d slots are free during the pause", n)
	}
}

// TestGoAwaySendsAgain has a target that goes away orderly and says that it has not read the last request.
func TestGoAwaySendsAgain(t *testing.T) {
	for _, body := range []string{"", "x"} {
		e, d := newHTTP2Endpoint(t, func(n int64, s stream) {
			if n != 2 {
				s.answer()
				return
			}
			_ = s.frames.WriteGoAway(s.id-2, http2.ErrCodeNo, nil)
		})
		for i := range 3 {
			v := newDelivery(i, e.url())
			v.Run.Data.Bytes = []byte(body)
			if r := d.do(t, v); r.Outcome != carillon.OutcomeSuccess {
				t.Fatalf("%+v", r.Result)
			}
		}
		if n := d.target.http2.open(); e.read.Load() != 4 || n != 1 {
			t.Fatalf("%d requests, %d connections are open", e.read.Load(), n)
		}
	}
}

// TestGoAwayEndsSomewhere has a target that says so of each request.
func TestGoAwayEndsSomewhere(t *testing.T) {
	e, d := newHTTP2Endpoint(t, func(_ int64, s stream) { _ = s.frames.WriteGoAway(0, http2.ErrCodeNo, nil) })
	r := d.do(t, newDelivery(1, e.url()))
	if r.Outcome != 0 || r.Permanent || e.read.Load() != 1+maxUnread {
		t.Fatalf("%d requests: %+v", e.read.Load(), r.Result)
	}
}

// TestIdleHTTP2ConnCloses has a target that closes a connection that nobody uses.
func TestIdleHTTP2ConnCloses(t *testing.T) {
	e, d := newHTTP2Endpoint(t, func(_ int64, s stream) { s.answer() })
	for i := range 3 {
		if r := d.do(t, newDelivery(i, e.url())); r.Outcome != carillon.OutcomeSuccess {
			t.Fatalf("%+v", r.Result)
		}
		e.closeAll()
		for d.target.http2.open() > 0 {
			runtime.Gosched()
		}
	}
	if e.read.Load() != 3 {
		t.Fatalf("%d requests", e.read.Load())
	}
}

// open is how many connections are open.
func (h *http2Conns) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// TestHTTP2ConnIsShared has many requests at once on one connection.
func TestHTTP2ConnIsShared(t *testing.T) {
	const n = 100
	var mu sync.Mutex
	var held []stream
	e, d := newHTTP2Endpoint(t, func(i int64, s stream) {
		mu.Lock()
		defer mu.Unlock()
		if held = append(held, s); i > 1 && len(held) < n {
			return
		}
		for _, s := range held {
			s.answer()
		}
		held = nil
	})
	d.do(t, newDelivery(0, e.url()))
	before := e.used.Load()
	for i := range n {
		d.deliver(t, newDelivery(1+i, e.url()))
	}
	for range n {
		if r := <-d.reports; r.Outcome != carillon.OutcomeSuccess {
			t.Fatalf("%+v", r.Result)
		}
	}
	if e.used.Load() != before {
		t.Fatalf("%d connections", e.used.Load())
	}
}

// TestManyDialsShareOneConn has many first requests at once: connections beyond the first one that is ready
// are closed.
func TestManyDialsShareOneConn(t *testing.T) {
	const n = 50
	e, d := newHTTP2Endpoint(t, func(_ int64, s stream) { s.answer() })
	for i := range n {
		d.deliver(t, newDelivery(i, e.url()))
	}
	for range n {
		if r := <-d.reports; r.Outcome != carillon.OutcomeSuccess {
			t.Fatalf("%+v", r.Result)
		}
	}
	if got := d.target.http2.open(); got != 1 || e.read.Load() != n {
		t.Fatalf("%d connections are open, %d requests", got, e.read.Load())
	}
}

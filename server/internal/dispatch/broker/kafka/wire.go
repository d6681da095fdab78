package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
)

// wire is what the connections of a client share: it knows which produce requests have begun to leave, and
// which of them got no answer, or none that says whether the broker has the records.
type wire struct {
	ended func() // called when a connection has ended; nil: nobody wants to know

	mu     sync.Mutex
	closed bool   // no produce request may leave anymore
	begun  uint64 // produce requests that have begun to leave
	lost   uint64 // those that got no answer, as their connection ended, or one that leaves it open
}

// mark is a moment in the life of a wire.
type mark struct{ begun, lost uint64 }

func (w *wire) now() mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return mark{begun: w.begun, lost: w.lost}
}

// close lets no produce request leave anymore.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// begin notes that a produce request is about to leave, unless none may.
func (w *wire) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return net.ErrClosed
	}
	w.begun++
	return nil
}

func (w *wire) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost++
}

// dial makes a connection.
func (w *wire) dial(ctx context.Context, network, address string, secure *tls.Config) (net.Conn, error) {
	inner, err := dial(ctx, network, address, secure)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, wire: w}, nil
}

func dial(ctx context.Context, network, address string, secure *tls.Config) (net.Conn, error) {
	if secure != nil {
		return (&tls.Dialer{Config: secure}).DialContext(ctx, network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// conn watches a connection, above TLS. Requests and answers are frames: their length in four bytes, and then
// so many. Answers come in the order of the requests.
//
// franz-go reads only when it waits for an answer. In between, the conn reads ahead by one byte, so that it
// knows when the broker has gone.
type conn struct {
	net.Conn

	wire    *wire
	reading sync.WaitGroup // the read ahead

	mu      sync.Mutex
	waiting []request // those without an answer
	head    [4]byte
	headLen int    // bytes of the length of an answer that have come
	rest    int    // bytes of an answer that are still to come
	answer  []byte // what has come of an answer to a produce request
	ahead   chan early
	over    bool
}

// request is what is to be known of one until its answer is there.
type request struct {
	produce bool
	version int16
}

// early is what a read ahead got.
type early struct {
	n   int
	b   [1]byte
	err error
}

// Requests begin with their length, their key and its version.
const (
	keyAt      = 4
	versionAt  = keyAt + 2
	versionEnd = versionAt + 2
	produceKey = 0
)

// mostAnswer bounds what is kept of an answer to a produce request. A longer one counts as no answer.
const mostAnswer = 8 << 20

// Write sends a request: franz-go writes each in one piece.
func (c *conn) Write(b []byte) (int, error) {
	var r request
	if r.produce = len(b) >= versionEnd && binary.BigEndian.Uint16(b[keyAt:]) == produceKey; r.produce {
		r.version = int16(binary.BigEndian.Uint16(b[versionAt:]))
	}
	if err := c.ask(r); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if err != nil {
		if n == 0 {
			c.mu.Lock() // what was not begun is not lost
			c.waiting = c.waiting[:max(0, len(c.waiting)-1)]
			c.mu.Unlock()
		}
		c.end()
	}
	return n, err
}

// ask notes a request that is about to leave, unless none may.
func (c *conn) ask(r request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return net.ErrClosed
	}
	if r.produce {
		if err := c.wire.begin(); err != nil {
			return err
		}
	}
	c.waiting = append(c.waiting, r)
	return nil
}

// Read receives a part of an answer. Its error is known here before franz-go knows it.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.take(b)
	c.follow(b[:n])
	if err != nil {
		c.end()
	}
	return n, err
}

// take takes what was read ahead, or else reads.
func (c *conn) take(b []byte) (int, error) {
	c.mu.Lock()
	ahead := c.ahead
	if len(b) > 0 {
		c.ahead = nil
	}
	c.mu.Unlock()
	if ahead != nil && len(b) > 0 {
		// A deadline that has passed may be the one of the answer before.
		if e := <-ahead; e.n > 0 || !errors.Is(e.err, os.ErrDeadlineExceeded) {
			return copy(b, e.b[:e.n]), e.err
		}
	}
	return c.Conn.Read(b)
}

// readAhead waits for a byte or for the end of the connection. It is called locked.
func (c *conn) readAhead() {
	if c.over || c.ahead != nil {
		return
	}
	ahead := make(chan early, 1)
	c.ahead = ahead
	c.reading.Go(func() {
		var e early
		e.n, e.err = c.Conn.Read(e.b[:])
		if e.err != nil && !errors.Is(e.err, os.ErrDeadlineExceeded) {
			c.end()
		}
		ahead <- e
	})
}

// Close ends the connection.
func (c *conn) Close() error {
	c.end()
	err := c.Conn.Close()
	c.reading.Wait()
	return err
}

// follow counts the answers that are complete, and looks into those to produce requests.
func (c *conn) follow(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 {
		if c.headLen < len(c.head) {
			n := copy(c.head[c.headLen:], b)
			c.headLen, b = c.headLen+n, b[n:]
			if c.headLen < len(c.head) {
				return
			}
			c.rest = int(binary.BigEndian.Uint32(c.head[:]))
		}
		n := min(c.rest, len(b))
		if len(c.waiting) > 0 && c.waiting[0].produce && len(c.answer) <= mostAnswer {
			c.answer = append(c.answer, b[:n]...)
		}
		c.rest, b = c.rest-n, b[n:]
		if c.rest == 0 {
			c.answered()
		}
	}
}

// answered notes that an answer is complete. It is called locked.
func (c *conn) answered() {
	if len(c.waiting) > 0 {
		if r := c.waiting[0]; r.produce && (len(c.answer) > mostAnswer || leavesOpen(r.version, c.answer)) {
			c.wire.lose()
		}
		c.waiting = c.waiting[1:]
	}
	c.headLen, c.answer = 0, nil
	if len(c.waiting) == 0 {
		c.readAhead()
	}
}

// end notes the produce requests that will get no answer.
func (c *conn) end() {
	c.mu.Lock()
	first := !c.over
	c.over = true
	for _, r := range c.waiting {
		if r.produce {
			c.wire.lose()
		}
	}
	c.waiting = nil
	c.mu.Unlock()
	if first && c.wire.ended != nil {
		c.wire.ended()
	}
}

package httptarget

import (
	"errors"
	"math"
	"net"
	"sync"
)

// An HTTP/2 target may send unsolicited frames such as SETTINGS and PING as fast as the network carries them,
// and net/http reads and answers each of them for as long as the connection lasts. So what may be read from a
// connection is metered: a share for each attempt that is under way on it, and little while there is none. A
// target that exceeds it loses its connection. HTTP/1 needs none of this: net/http closes a connection on
// which something unsolicited arrives, and reads no more than the headers and the body of one answer.
const (
	// perAttempt is what one attempt may read: headers, what is read of a body, and as much again that was on
	// its way.
	perAttempt = 512 << 10
	// whileIdle is what may arrive while there is none: the end of bodies that were not read, pings for an
	// hour.
	whileIdle = 64 << 10
)

// errUnasked reports that a target sent too much that nothing asked for.
var errUnasked = errors.New("the target sent more than an answer needs")

// meter is a network connection, below TLS, with a bound on what is read.
type meter struct {
	net.Conn

	mu     sync.Mutex
	flying int // attempts under way
	left   int // bytes
}

// newMeter returns a meter with room for a handshake.
func newMeter(c net.Conn) *meter { return &meter{Conn: c, left: perAttempt} }

// off ends the metering.
func (m *meter) off() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = math.MaxInt
}

// Read implements [net.Conn].
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.mu.Lock()
	m.left -= n
	over := m.left < 0
	m.mu.Unlock()
	if over {
		_ = m.Conn.Close()
		return 0, errUnasked
	}
	return n, err
}

// begin adds room for what one more attempt reads.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flying == 0 {
		m.left = 0
	}
	m.flying++
	m.left += perAttempt
}

// end removes the room of an attempt.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flying--
	m.left = min(m.left, max(whileIdle, m.flying*perAttempt))
}

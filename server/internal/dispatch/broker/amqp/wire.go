package amqp

import (
	"net"
	"sync"
	"time"
)

const (
	// writeTimeout is how long a write may be stuck before the connection is given up. A broker that is short of
	// memory stops reading: for seconds, or else it says so by connection.blocked.
	writeTimeout = 30 * time.Second
	// burstBytes is how much is collected before it is written.
	burstBytes = 64 << 10
)

// wire is the socket, with TLS if there is any. Writes between cork and uncork are collected.
type wire struct {
	net.Conn

	timeout time.Duration // of a write

	mu    sync.Mutex
	corks int
	buf   []byte
	err   error // of the first write that failed: what follows it would not be understood
}

// Write implements net.Conn. What is collected counts as written: its loss ends the connection.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.buf = append(w.buf, p...)
	if w.corks == 0 || len(w.buf) >= burstBytes {
		w.flush()
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// cork collects writes until [wire.uncork].
func (w *wire) cork() {
	w.mu.Lock()
	w.corks++
	w.mu.Unlock()
}

// uncork writes what was collected, by whomever. If that fails the connection ends, which its reader notices.
func (w *wire) uncork() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corks--
	w.flush()
}

func (w *wire) flush() {
	if w.err != nil || len(w.buf) == 0 {
		return
	}
	if w.err = w.SetWriteDeadline(time.Now().Add(w.timeout)); w.err == nil {
		_, w.err = w.Conn.Write(w.buf)
	}
	if w.buf = w.buf[:0]; cap(w.buf) > 4*burstBytes {
		w.buf = nil
	}
	if w.err != nil {
		_ = w.Close() // the error of the write is kept
	}
}

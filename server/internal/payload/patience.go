package payload

import (
	"context"
	"io"
	"sync"
	"time"
)

// How long an answer may take.
const (
	answerWithin = 10 * time.Second // until the answer to a request begins
	readWithin   = 30 * time.Second // until more of an object comes
	writeWithin  = 30 * time.Second // until an object is written, and longer the larger it is:
	writeSlowest = 1 << 20          // bytes a second
)

// patient is a reader that fails if nothing more comes for a while.
type patient struct {
	from  io.ReadCloser
	timer *time.Timer
	end   context.CancelFunc
}

// patiently returns a reader of from, which end ends.
func patiently(from io.ReadCloser, end context.CancelFunc) *patient {
	p := &patient{from: from, end: end, timer: time.AfterFunc(readWithin, end)}
	p.timer.Stop()
	return p
}

// Read implements [io.Reader].
func (p *patient) Read(b []byte) (int, error) {
	p.timer.Reset(readWithin)
	defer p.timer.Stop()
	return p.from.Read(b)
}

// Close implements [io.Closer].
func (p *patient) Close() error {
	defer p.end()
	p.timer.Stop()
	return p.from.Close()
}

// Pauses of an attempt whose payload cannot be read at present.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// pause is how long to wait before a payload is asked for again. It grows while all reads fail.
type pause struct {
	mu    sync.Mutex
	next  time.Duration
	since time.Time // when it last grew
}

// failed returns the pause after a failure. Failures at about the same time count once.
func (p *pause) failed(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == 0 || now.Sub(p.since) >= p.next {
		p.next = min(max(firstPause, 2*p.next), lastPause)
		p.since = now
	}
	return p.next
}

// succeeded begins again. It reports whether there was a failure before.
func (p *pause) succeeded() (after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	after = p.next != 0
	p.next = 0
	return after
}

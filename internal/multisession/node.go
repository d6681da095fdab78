package multisession

import (
	"context"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// node is the session with one node. The fields from address on are guarded by the session's lock.
type node struct {
	all     *session
	session carillon.Session
	sending sync.Mutex    // a session takes one request at a time
	ready   chan struct{} // capacity 1; full when there may be something to send
	life    context.Context
	cut     context.CancelFunc // ends its session at once
	since   time.Time

	address  string   // "" until known
	view     []string // the addresses of all nodes, as it last listed them
	leaving  bool     // it gets no more credits, and is closed when its runs have ended
	gone     bool     // its session is over
	pinged   bool     // it asked for a pong
	running  bool     // its goroutines have been started
	closing  bool     // the session is closed once out is sent
	out      []carillon.WorkRequest
	waiting  int // approximate size of out in bytes
	flight   int // runs that came from it and have not ended, as far as is known
	awaiting awaiting
	reply    reply
}

func newNode(s *session, session carillon.Session, address string) *node {
	n := &node{all: s, session: session, address: address, ready: make(chan struct{}, 1), since: time.Now(),
		awaiting: awaiting{}, reply: reply{heartbeats: map[string]carillon.Heartbeat{}}}
	n.life, n.cut = context.WithCancel(s.life)
	return n
}

// Bounds on what waits for a node.
const (
	maxMessage  = 1 << 20   // approximate bytes of a message
	maxWaiting  = 256 << 20 // bytes; a node that does not accept more is given up
	itemBytes   = 256       // approximate bytes of a result or a heartbeat without its text
	creditBytes = 32
)

// send sends a request and waits until the session has accepted it.
func (n *node) send(ctx context.Context, req carillon.WorkRequest) error {
	n.sending.Lock()
	defer n.sending.Unlock()
	return n.session.Send(ctx, req)
}

// enqueue queues a request for the writer. The session's lock is held.
func (n *node) enqueue(req carillon.WorkRequest) {
	if n.gone || n.closing {
		return
	}
	size := sizeOf(&req)
	if n.waiting += size; n.waiting > maxWaiting {
		n.cut() // it accepts nothing, so its session is lost
		return
	}
	if last := len(n.out) - 1; last >= 0 && sizeOf(&n.out[last])+size <= maxMessage {
		credits := len(n.out[last].Credits) + len(req.Credits)
		n.out[last] = join(n.out[last], req)
		n.waiting -= creditBytes * (credits - len(n.out[last].Credits)) // some were merged
	} else {
		n.out = append(n.out, req)
	}
	signal(n.ready)
}

// join appends request b to a and returns the result; a must not be used again.
func join(a, b carillon.WorkRequest) carillon.WorkRequest {
	for _, c := range b.Credits {
		if last := len(a.Credits) - 1; last >= 0 && c.N > 0 && a.Credits[last].N > 0 &&
			a.Credits[last].Queue == c.Queue {
			a.Credits[last].N += c.N
		} else {
			a.Credits = append(a.Credits, c)
		}
	}
	a.Results = append(a.Results, b.Results...)
	a.Heartbeats = append(a.Heartbeats, b.Heartbeats...)
	a.Goodbye = a.Goodbye || b.Goodbye
	a.Pong = a.Pong || b.Pong
	return a
}

// sizeOf returns the approximate size of a request in bytes.
func sizeOf(r *carillon.WorkRequest) int {
	size := creditBytes*len(r.Credits) + itemBytes*len(r.Heartbeats)
	for i := range r.Results {
		size += resultBytes(&r.Results[i])
	}
	return size
}

// resultBytes returns the approximate size of a result in bytes.
func resultBytes(r *carillon.Result) int { return itemBytes + len(r.Message) + len(r.Response) }

// run starts the goroutines that read from and write to the node's session.
func (n *node) run() {
	n.running = true
	if len(n.out) > 0 {
		signal(n.ready)
	}
	go n.write()
	go n.read()
}

// read handles the node's messages until its session is over.
func (n *node) read() {
	for {
		resp, err := n.session.Receive(n.life)
		if err != nil {
			n.cut()
			n.all.lost(n, err)
			return
		}
		n.all.received(n, &resp)
		if isEmptyResponse(&resp) {
			continue
		}
		select {
		case n.all.in <- resp:
		case <-n.all.life.Done():
		}
	}
}

// write sends queued requests until the session is over or to be closed.
func (n *node) write() {
	defer func() { _ = n.session.Close() }() // so that the reader returns, too
	for {
		select {
		case <-n.ready:
		case <-n.life.Done():
			return
		}
		for {
			req, more, last := n.next()
			if last {
				return
			}
			if !more {
				break
			}
			if err := n.send(n.life, req); err != nil {
				return
			}
		}
	}
}

// next removes the next request to send from out. last: there is none and the session is to be closed.
func (n *node) next() (req carillon.WorkRequest, more, last bool) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if len(n.out) == 0 {
		return req, false, n.closing
	}
	req = n.out[0]
	n.out[0] = carillon.WorkRequest{}
	n.out = n.out[1:]
	n.waiting -= sizeOf(&req)
	return req, true, false
}

// close makes the writer close the session when everything is sent. The session's lock is held.
func (n *node) close() {
	n.closing = true
	signal(n.ready)
}

// closeIfIdle closes a node that is leaving and has no runs or unacknowledged results left, provided that
// another node stays. The session's lock is held.
func (n *node) closeIfIdle() {
	s := n.all
	if !n.leaving || n.closing || n.flight > 0 || len(n.awaiting) > 0 || !s.stays() || s.isTiedTo(n) {
		return
	}
	n.close()
}

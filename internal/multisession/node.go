package multisession

import (
	"context"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// node is a session with one node. What follows view is guarded by the session's lock.
type node struct {
	all     *session
	session carillon.Session
	sending sync.Mutex    // a session takes one request at a time
	bell    chan struct{} // holds one when there may be something to send
	life    context.Context
	cut     context.CancelFunc // ends its session at once
	since   time.Time

	address    string   // "" until it has said
	view       []string // where it says that all nodes are
	leaving    bool     // it gets no more credits, and ends when its runs have
	gone       bool     // nothing more comes from it
	pinged     bool     // it waits for a sign of life
	running    bool     // its goroutines have begun
	closing    bool     // what is in out is sent, then the session is closed
	out        []carillon.WorkRequest
	waiting    int                        // about how many bytes out has
	flight     int                        // runs that came from it, and have not ended as far as is known
	unsure     map[string]carillon.Result // sent to it and not acknowledged, by token
	unanswered unanswered
}

func newNode(s *session, session carillon.Session, address string) *node {
	n := &node{all: s, session: session, address: address, bell: make(chan struct{}, 1), since: time.Now(),
		unsure: map[string]carillon.Result{}, unanswered: unanswered{heartbeats: map[string]carillon.Heartbeat{}}}
	n.life, n.cut = context.WithCancel(s.life)
	return n
}

// How much waits for a node.
const (
	maxMessage  = 1 << 20  // bytes of a message, about
	maxWaiting  = 64 << 20 // bytes; a node that does not take more is given up
	itemBytes   = 256      // about what a result or a heartbeat takes beside its text
	creditBytes = 32
)

// send hands a request over.
func (n *node) send(ctx context.Context, req carillon.WorkRequest) error {
	n.sending.Lock()
	defer n.sending.Unlock()
	return n.session.Send(ctx, req)
}

// keep keeps results until they are acknowledged, to say them to another if the node is lost.
func (n *node) keep(results []carillon.Result) {
	for i := range results {
		if results[i].Outcome != carillon.OutcomeProgress {
			n.unsure[results[i].Token] = results[i]
		}
	}
}

// say lets the writer send a request. The session's lock is held.
func (n *node) say(req carillon.WorkRequest) {
	if n.gone || n.closing {
		return
	}
	size := sizeOf(&req)
	if n.waiting += size; n.waiting > maxWaiting {
		n.cut() // it takes nothing, so its session is lost
		return
	}
	if last := len(n.out) - 1; last >= 0 && sizeOf(&n.out[last])+size <= maxMessage {
		n.out[last] = join(n.out[last], req)
	} else {
		n.out = append(n.out, req)
	}
	ring(n.bell)
}

// join is what two requests say, in their order; the first is used up.
func join(a, b carillon.WorkRequest) carillon.WorkRequest {
	for _, c := range b.Credits {
		if last := len(a.Credits) - 1; last >= 0 && c.N > 0 && a.Credits[last].N > 0 && a.Credits[last].Queue == c.Queue {
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

// sizeOf is about how many bytes a request takes.
func sizeOf(r *carillon.WorkRequest) int {
	size := creditBytes*len(r.Credits) + itemBytes*(len(r.Results)+len(r.Heartbeats))
	for i := range r.Results {
		size += len(r.Results[i].Message) + len(r.Results[i].Response)
	}
	return size
}

// run lets the node's session be read and written by goroutines of its own.
func (n *node) run() {
	n.running = true
	if len(n.out) > 0 {
		ring(n.bell)
	}
	go n.write()
	go n.read()
}

// read takes what the node says until its session is over.
func (n *node) read() {
	for {
		resp, err := n.session.Receive(n.life)
		if err != nil {
			n.cut()
			n.all.lost(n, err)
			return
		}
		n.all.heard(n, &resp)
		if empty(&resp) {
			continue
		}
		select {
		case n.all.in <- resp:
		case <-n.all.life.Done():
		}
	}
}

// write says what there is to say until the session is to be closed, or is over.
func (n *node) write() {
	defer func() { _ = n.session.Close() }() // the reader learns that it is over
	for {
		select {
		case <-n.bell:
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

// next takes the next request to send; last: there is none, and none will come.
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

// close lets the writer close the session when all is sent. The session's lock is held.
func (n *node) close() {
	n.closing = true
	ring(n.bell)
}

// closeIfIdle closes a node that is leaving and with which nothing is left to do, if another is there. The lock is held.
func (n *node) closeIfIdle() {
	s := n.all
	if !n.leaving || n.closing || n.flight > 0 || len(n.unsure) > 0 || !s.stays() || s.options.Tied && n == s.first {
		return
	}
	n.close()
}

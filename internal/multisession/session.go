package multisession

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// Options configure a multi-node session.
type Options struct {
	// Hello is sent to every node, with Direct set.
	Hello carillon.Hello
	// Connect opens a session with the node at an address. It returns soon after ctx has ended; the session
	// outlives ctx.
	Connect func(ctx context.Context, address string, hello carillon.Hello) (carillon.Session, error)
	// Learn, if not nil, is called with the addresses of all nodes whenever they change. It must not block.
	Learn func(addresses []string)
	// Over, if not nil, reports whether the lease of a run has ended on its way here. Such a run is not
	// passed on to the worker. Runs that come straight from the first node are not checked on arrival.
	Over func(run *carillon.Run) bool
	// Tied: the session ends when the first node's session ends, and drains when the first node drains.
	Tied bool
}

// lingering is how long after Close messages of the nodes can still be received.
const lingering = 5 * time.Second

// session is a [carillon.Session] with all nodes of a cluster. The nodes' readers bring messages in
// (received), and the worker's calls bring requests; both change the types below, which say what is to be
// sent where.
type session struct {
	options Options
	first   *node

	life   context.Context // of the nodes' sessions and of attempts to connect
	cancel context.CancelFunc
	in     chan carillon.WorkResponse // from the nodes' readers
	done   chan struct{}              // closed when err is set

	mu           sync.Mutex
	state        state
	err          error // why it has ended
	several      bool  // more than one node is known, so each has goroutines; never unset
	nodes        []*node
	dialer       *dialer
	allocation   *allocation
	firstCredits []carillon.Credit // credits for the first node while there is no other
	flights      flights
	copies       copies
	watch        *alarm // calls watchReplies
	notices      notices
	learned      []string // addresses of all nodes, as last passed on
}

// Open combines the first node's session with those of all nodes that it lists. The first session must have
// been opened with the same hello and with Direct set.
func Open(first carillon.Session, o Options) carillon.Session {
	o.Hello.Direct = true
	s := &session{
		options: o, in: make(chan carillon.WorkResponse), done: make(chan struct{}),
		notices: notices{ready: make(chan struct{}, 1)}, copies: copies{second: map[string]*node{}},
	}
	s.life, s.cancel = context.WithCancel(context.Background())
	connect := func(ctx context.Context, address string) (carillon.Session, error) {
		return s.options.Connect(ctx, address, s.options.Hello)
	}
	s.dialer = newDialer(s.life, connect, s.connected)
	s.allocation = newAllocation(slices.Clone(o.Hello.Queues), s.tick)
	s.allocation.send, s.allocation.answer = s.sendCredit, s.notices.withdrawn
	s.watch = newAlarm(s.watchReplies)
	s.first = newNode(s, first, "")
	s.flights = flights{first: s.first, nodes: map[string]*node{}}
	s.add(s.first)
	return s
}

// apply makes the transition of an event. It reports whether that has changed the state. The lock is held.
func (s *session) apply(e event) (changed bool) {
	next := s.state.after(e)
	changed = next != s.state
	if s.state == stateServing && changed {
		s.allocation.stop()
		s.watch.stop()
		s.dialer.stop()
	}
	s.state = next
	return changed
}

// Send implements [carillon.Session].
func (s *session) Send(ctx context.Context, req carillon.WorkRequest) error {
	s.mu.Lock()
	if err := s.refuse(&req); err != nil {
		s.mu.Unlock()
		return err
	}
	direct := !s.several
	s.answerPings(&req)
	s.flights.reported(req.Results)
	s.allocation.change(req.Credits)
	if direct {
		req.Credits = s.takeFirstCredits()
	} else {
		s.sendToAll(&req)
	}
	if req.Goodbye {
		s.apply(eventGoodbye)
	}
	s.mu.Unlock()
	if direct && !isEmptyRequest(&req) {
		return s.first.send(ctx, req)
	}
	return nil
}

// refuse returns why a request is refused; nil if it is accepted.
func (s *session) refuse(req *carillon.WorkRequest) error {
	switch {
	case s.state.ended():
		return s.err
	case s.state.shut():
		return errClosed()
	case s.state == stateLeaving && len(req.Credits) > 0:
		return carillon.Errorf(carillon.FailedPrecondition, "credits", "the worker has said goodbye")
	}
	for _, c := range req.Credits {
		if !s.allocation.has(c.Queue) {
			return carillon.Errorf(carillon.InvalidArgument, "credits.queue",
				"%q is not a queue of this session", c.Queue)
		}
	}
	return nil
}

// answerPings sends a pong to the nodes that asked for one: any request of the worker proves that it is
// alive.
func (s *session) answerPings(req *carillon.WorkRequest) {
	for _, n := range s.nodes {
		switch {
		case !n.pinged:
			continue
		case s.several:
			n.enqueue(carillon.WorkRequest{Pong: true})
		default:
			req.Pong = true
		}
		n.pinged = false
	}
	if s.several {
		req.Pong = false
	}
}

// sendCredit gives credits to a node, or asks for them back. While the first node is the only one they go
// with the next request to it.
func (s *session) sendCredit(n *node, c carillon.Credit) {
	if s.several {
		n.enqueue(carillon.WorkRequest{Credits: []carillon.Credit{c}})
	} else {
		s.firstCredits = append(s.firstCredits, c)
	}
}

// takeFirstCredits returns the credits for the first node that are not sent yet.
func (s *session) takeFirstCredits() []carillon.Credit {
	credits := s.firstCredits
	s.firstCredits = nil
	return credits
}

// tick lets the credit pools ask again for committed credits.
func (s *session) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allocation.tick()
}

// sendToAll sends each node its part of the worker's request, but for credits.
func (s *session) sendToAll(req *carillon.WorkRequest) {
	parts := requests{}
	for _, b := range req.Heartbeats {
		r := parts.to(s.route(b.Token))
		r.Heartbeats = append(r.Heartbeats, b)
	}
	for i := range req.Results {
		s.copies.resent(req.Results[i].Token)
		r := parts.to(s.route(req.Results[i].Token))
		r.Results = append(r.Results, req.Results[i])
	}
	for _, n := range s.nodes {
		if r := parts[n]; r != nil {
			s.report(n, r)
		}
		if req.Goodbye {
			n.enqueue(carillon.WorkRequest{Goodbye: true})
		}
	}
}

// requests are what nodes are to be sent.
type requests map[*node]*carillon.WorkRequest

// to returns the request to a node, which is empty at first.
func (r requests) to(n *node) *carillon.WorkRequest {
	if r[n] == nil {
		r[n] = &carillon.WorkRequest{}
	}
	return r[n]
}

// route returns the node that gets reports on a token. The session is not over, so there is one. The heir of
// a lost node keeps the token: earlier reports on it may still be on their way to that heir.
func (s *session) route(token string) *node {
	n, known := s.flights.of(token)
	if n.gone {
		n = s.heir()
		s.flights.move(token, known, n)
	}
	return n
}

// heir returns the node that gets reports meant for a lost one.
func (s *session) heir() *node {
	for _, n := range s.nodes {
		if !n.leaving {
			return n
		}
	}
	return s.nodes[0]
}

// Close implements [carillon.Session]. Nothing more is sent except what Send has accepted. Messages that the
// nodes have sent already can still be received.
func (s *session) Close() error {
	s.mu.Lock()
	changed, several := s.apply(eventShut), s.several
	if changed && several {
		time.AfterFunc(lingering, s.cancel)
		for _, n := range s.nodes {
			n.close()
		}
	}
	s.mu.Unlock()
	if !changed || several {
		return nil
	}
	return s.first.session.Close()
}

// fail ends the session with an error; only the first one counts.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

// failLocked is fail with the lock held.
func (s *session) failLocked(err error) {
	if s.state.shut() {
		err = errClosed()
	}
	if !s.apply(eventEnd) {
		return
	}
	s.err = err
	close(s.done)
	s.cancel()
	if !s.several {
		_ = s.first.session.Close() // perhaps only the wait for it ended
	}
}

// lastError returns why the session has ended.
func (s *session) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func errClosed() error { return carillon.Errorf(carillon.Canceled, "", "the session is closed") }

// isEmptyRequest reports whether a request says nothing.
func isEmptyRequest(r *carillon.WorkRequest) bool {
	return len(r.Credits)+len(r.Results)+len(r.Heartbeats) == 0 && !r.Goodbye && !r.Pong
}

// isEmptyResponse reports whether a response says nothing.
func isEmptyResponse(r *carillon.WorkResponse) bool {
	answers := len(r.Stale) + len(r.Acks) + len(r.Confirmed) + len(r.Withdrawn)
	return len(r.Runs)+len(r.Cancel)+len(r.Nodes)+len(r.Wanted)+answers == 0 && !r.Drain && !r.Ping
}

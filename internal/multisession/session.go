package multisession

import (
	"context"
	"errors"
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

// Timing of connections and credits.
const (
	connectTimeout = 10 * time.Second
	firstBackoff   = 50 * time.Millisecond
	lastBackoff    = 5 * time.Second
	// restless is how long credits stay committed before a node may be asked for them again.
	restless = 50 * time.Millisecond
	// lingering is how long after Close messages of the nodes can still be received.
	lingering = 5 * time.Second
)

// session is a [carillon.Session] with all nodes of a cluster.
type session struct {
	options Options
	first   *node

	life context.Context // of the nodes' sessions and of attempts to connect
	end  context.CancelFunc
	in   chan carillon.WorkResponse // from the nodes' readers
	bell chan struct{}              // capacity 1; filled when words may be non-empty
	over chan struct{}              // closed when err is set

	mu       sync.Mutex
	many     bool // more than one node is known, so each has goroutines; never unset
	nodes    []*node
	dialing  map[string]*dial // by address
	pools    map[string]*creditPool
	order    []string                 // queues in a fixed order, so that nothing depends on map order
	routes   map[string]*node         // by token of a run; runs without an entry came from the first node
	words    carillon.WorkResponse    // the session's own messages to the worker
	late     []carillon.Credit        // credits for the first node while there is no other
	waits    map[string]time.Duration // backoff by address
	lent     map[string]*node         // by token: the second node that got reports on it
	settled  tokenSet                 // tokens that two nodes were told of and one has answered for good
	learned  []string                 // addresses of all nodes, as last passed on
	timer    *time.Timer
	ticking  bool
	watcher  *time.Timer
	watching bool
	drained  bool // the worker was told to drain
	goodbye  bool
	closing  bool
	err      error
}

// Open combines the first node's session with those of all nodes that it lists. The first session must have
// been opened with the same hello and with Direct set.
func Open(first carillon.Session, o Options) carillon.Session {
	o.Hello.Direct = true
	s := &session{
		options: o, in: make(chan carillon.WorkResponse), bell: make(chan struct{}, 1), over: make(chan struct{}),
		dialing: map[string]*dial{}, pools: map[string]*creditPool{}, routes: map[string]*node{},
		waits: map[string]time.Duration{}, lent: map[string]*node{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.timer = time.AfterFunc(restless, s.tick)
	s.timer.Stop()
	s.watcher = time.AfterFunc(suspectAfter, s.watch)
	s.watcher.Stop()
	s.first = newNode(s, first, "")
	for _, q := range o.Hello.Queues {
		s.pools[q] = &creditPool{}
		s.order = append(s.order, q)
	}
	s.add(s.first)
	return s
}

// Send implements [carillon.Session].
func (s *session) Send(ctx context.Context, req carillon.WorkRequest) error {
	s.mu.Lock()
	if err := s.refuse(&req); err != nil {
		s.mu.Unlock()
		return err
	}
	direct := !s.many
	s.answerPings(&req)
	s.ended(req.Results)
	if direct {
		req.Credits = s.credit(req.Credits, nil)
	} else {
		s.sendMany(&req)
	}
	s.goodbye = s.goodbye || req.Goodbye
	s.mu.Unlock()
	if direct && !silent(&req) {
		return s.first.send(ctx, req)
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
		case s.many:
			n.say(carillon.WorkRequest{Pong: true})
		default:
			req.Pong = true
		}
		n.pinged = false
	}
	if s.many {
		req.Pong = false
	}
}

// ended counts runs of the first node that have ended; progress does not end one.
func (s *session) ended(results []carillon.Result) {
	for i := range results {
		if results[i].Outcome == carillon.OutcomeProgress || s.first.flight == 0 {
			continue
		}
		if len(s.routes) == 0 || s.routes[results[i].Token] == nil {
			s.first.flight--
		}
	}
}

// refuse returns why a request is refused; nil if it is accepted.
func (s *session) refuse(req *carillon.WorkRequest) error {
	switch {
	case s.err != nil:
		return s.err
	case s.closing:
		return closed()
	case s.goodbye && len(req.Credits) > 0:
		return carillon.Errorf(carillon.FailedPrecondition, "credits", "the worker has said goodbye")
	}
	for _, c := range req.Credits {
		if s.pools[c.Queue] == nil {
			return carillon.Errorf(carillon.InvalidArgument, "credits.queue", "%q is not a queue of this session", c.Queue)
		}
	}
	return nil
}

// credit applies the worker's credit changes and appends those for the first node to out while it is the only
// one.
func (s *session) credit(credits, out []carillon.Credit) []carillon.Credit {
	for _, c := range credits {
		p := s.pools[c.Queue]
		if c.N < 0 {
			p.takeBack(-c.N)
		} else {
			p.add(c.N)
		}
		out = s.settle(c.Queue, p, out)
	}
	return out
}

// settle makes the moves of a queue's credit pool. It appends them to out while the first node is the only
// one.
func (s *session) settle(queue string, p *creditPool, out []carillon.Credit) []carillon.Credit {
	moves, answers := p.settle()
	for _, m := range moves {
		c := carillon.Credit{Queue: queue, N: m.n}
		if s.many {
			m.node.say(carillon.WorkRequest{Credits: []carillon.Credit{c}})
		} else {
			out = append(out, c)
		}
	}
	for _, n := range answers {
		s.words.Withdrawn = append(s.words.Withdrawn, carillon.Credit{Queue: queue, N: n})
		ring(s.bell)
	}
	if s.many && !s.ticking && p.restless() {
		s.ticking = true
		s.timer.Reset(restless)
	}
	return out
}

// tick lets the credit pools ask again for committed credits.
func (s *session) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticking = false
	if s.err != nil || s.goodbye || s.closing {
		return
	}
	for _, q := range s.order {
		p := s.pools[q]
		p.tick()
		s.settle(q, p, nil)
	}
}

// sendMany sends each node its part of the worker's request.
func (s *session) sendMany(req *carillon.WorkRequest) {
	shares := map[*node]*carillon.WorkRequest{}
	share := func(token string) *carillon.WorkRequest {
		n := s.route(token)
		if shares[n] == nil {
			shares[n] = &carillon.WorkRequest{}
		}
		return shares[n]
	}
	for _, b := range req.Heartbeats {
		r := share(b.Token)
		r.Heartbeats = append(r.Heartbeats, b)
	}
	for i := range req.Results {
		s.settled.remove(req.Results[i].Token) // sent again, so it needs a new answer
		r := share(req.Results[i].Token)
		r.Results = append(r.Results, req.Results[i])
	}
	s.credit(req.Credits, nil)
	for _, n := range s.nodes {
		if r := shares[n]; r != nil {
			s.tell(n, r)
		}
		if req.Goodbye {
			n.say(carillon.WorkRequest{Goodbye: true})
		}
	}
	if req.Goodbye {
		s.stopDialing()
	}
}

// route returns the node that gets reports on a token. The session is not over, so there is one. The heir of
// a lost node keeps the token: earlier reports on it may still be on their way to that heir.
func (s *session) route(token string) *node {
	n, known := s.routes[token]
	if !known {
		n = s.first
	}
	if n.gone {
		n = s.heir()
		if known || len(s.routes) < maxRoutes {
			s.routes[token] = n
			n.flight++
		}
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

// Receive implements [carillon.Session]. If ctx ends first, the session is over.
func (s *session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	for {
		resp, err := s.next(ctx)
		if err != nil || !empty(&resp) {
			return resp, err
		}
	}
}

// next returns the next message, which may be empty.
func (s *session) next(ctx context.Context) (carillon.WorkResponse, error) {
	s.mu.Lock()
	resp := s.words
	s.words = carillon.WorkResponse{}
	many := s.many
	s.mu.Unlock()
	if !empty(&resp) {
		return resp, nil
	}
	if !many {
		return s.receiveFirst(ctx)
	}
	select {
	case resp = <-s.in:
		s.siftLast(&resp)
		return resp, nil
	case <-s.bell:
		return resp, nil
	case <-s.over:
		return resp, s.why()
	case <-ctx.Done():
		s.fail(carillon.Errorf(carillon.Canceled, "", "%w", ctx.Err()))
		return resp, s.why()
	}
}

// receiveFirst receives from the first node while it is the only one.
func (s *session) receiveFirst(ctx context.Context) (carillon.WorkResponse, error) {
	resp, err := s.first.session.Receive(ctx)
	if err != nil {
		s.fail(err)
		return resp, err
	}
	s.heard(s.first, &resp)
	s.mu.Lock()
	late := s.late
	s.late = nil
	s.mu.Unlock()
	if len(late) > 0 {
		err = s.first.send(s.life, carillon.WorkRequest{Credits: late})
	}
	return resp, err
}

func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close implements [carillon.Session]. Nothing more is sent except what Send has accepted. Messages that the
// nodes have sent already can still be received.
func (s *session) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return nil
	}
	s.closing = true
	many := s.many
	s.stopDialing()
	s.timer.Stop()
	s.watcher.Stop()
	if many {
		time.AfterFunc(lingering, s.end)
		for _, n := range s.nodes {
			n.close()
		}
	}
	s.mu.Unlock()
	if many {
		return nil
	}
	return s.first.session.Close()
}

// fail ends the session with an error; only the first one counts.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed(err)
}

// failed is fail with the lock held.
func (s *session) failed(err error) {
	if s.err != nil {
		return
	}
	if s.closing {
		err = closed()
	}
	s.err = err
	close(s.over)
	s.timer.Stop()
	s.watcher.Stop()
	s.end()
	if !s.many {
		_ = s.first.session.Close() // perhaps only the wait for it ended
	}
}

func closed() error { return carillon.Errorf(carillon.Canceled, "", "the session is closed") }

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// silent reports whether a request is empty.
func silent(r *carillon.WorkRequest) bool {
	return len(r.Credits)+len(r.Results)+len(r.Heartbeats) == 0 && !r.Goodbye && !r.Pong
}

// empty reports whether a response is empty.
func empty(r *carillon.WorkResponse) bool {
	answers := len(r.Stale) + len(r.Acks) + len(r.Confirmed) + len(r.Withdrawn)
	return len(r.Runs)+len(r.Cancel)+len(r.Nodes)+len(r.Wanted)+answers == 0 && !r.Drain && !r.Ping
}

// fatal reports whether a node ended its session because of what the worker sent: any other node would do the
// same.
func fatal(err error) bool { return errors.Is(err, carillon.InvalidArgument) }

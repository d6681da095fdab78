package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/partition"
)

// kind is the kind of the queues that workers serve.
const kind = "worker"

// Session is one worker's connection. It is a [carillon.Session] for the worker, a
// [dispatch.MultiNodeConsumer] and [dispatch.NodeWatcher] for the hub and a [partition.Reporter] for the
// engine. Its lock is never held while any of them is called.
type Session struct {
	options       Options
	id            string // of the worker
	namespace     string // what it may report on
	direct        bool   // the worker has sessions with other nodes, too, and distributes its credits itself
	sink          dispatch.Sink
	now           func() time.Time
	member        *dispatch.Registration
	subscriptions map[string]*dispatch.Subscription // by queue

	news chan struct{} // capacity 1; filled when there may be something to receive
	over chan struct{} // closed when err is set

	mu      sync.Mutex
	out     outbox
	held    map[string]*attempt // by token
	adopted int                 // how many of held were adopted
	goodbye bool
	words   uint64 // requests of the worker that are a sign of life; see speech
	silent  bool   // it let an attempt end without a sign of life since its delivery
	asked   bool   // it was pinged and has not answered
	err     error  // why the session is over

	stall  *time.Timer
	waited time.Time // since when something waits to be received
}

// attempt is a run that the worker has or is about to receive.
type attempt struct {
	subscription *dispatch.Subscription // nil: adopted, since another session delivered it
	sent         bool                   // received by the worker
	void         bool                   // released before it was sent, so it is not sent
	had          bool                   // an earlier delivery of its token was received

	words uint64 // the session's words when it was delivered
}

func open(ctx context.Context, o Options, h *dispatch.Hub, hello carillon.Hello) (*Session, error) {
	s := &Session{
		options: o, id: hello.WorkerID, namespace: hello.Namespace, direct: hello.Direct, sink: h.Sink(), now: h.Now,
		subscriptions: map[string]*dispatch.Subscription{},
		news:          make(chan struct{}, 1), over: make(chan struct{}), held: map[string]*attempt{},
	}
	s.stall = time.AfterFunc(o.Stall, s.stalled)
	s.stall.Stop()
	s.member = h.Register(ctx, s, kind, hello)
	for _, seat := range s.member.Subscriptions {
		s.subscriptions[seat.Queue().Address] = seat
	}
	if err := s.member.Join(); err != nil {
		return nil, err
	}
	return s, nil
}

// Deliver implements [dispatch.Consumer].
func (s *Session) Deliver(ds []partition.Delivery) bool {
	s.mu.Lock()
	if s.goodbye || s.err != nil {
		s.mu.Unlock()
		return false
	}
	var before []freed
	for i := range ds {
		d := &ds[i]
		a := &attempt{subscription: s.subscriptions[d.Queue.Address], words: s.words}
		if f := s.replace(d.Run.Token, a); f.subscription != nil {
			before = append(before, f)
		}
		s.out.addRun(d.Run, a)
	}
	full := s.out.bytes > s.options.MaxPendingBytes
	s.announce()
	s.mu.Unlock()
	if full {
		s.hold()
	}
	for _, f := range before {
		f.done()
	}
	return true
}

// hold holds the credits back while too much waits to be received.
func (s *Session) hold() {
	for _, seat := range s.member.Subscriptions {
		seat.Hold(func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.out.bytes > s.options.MaxPendingBytes
		})
	}
}

// announce wakes Receive and starts the stall timer. The lock is held.
func (s *Session) announce() {
	select {
	case s.news <- struct{}{}:
	default:
	}
	if s.waited.IsZero() {
		s.waited = time.Now()
		s.stall.Reset(s.options.Stall)
	}
	if s.out.bytes > 2*s.options.MaxPendingBytes {
		s.stall.Reset(0) // on a goroutine of its own, so that the caller is not held up
	}
}

// stalled drops a session that does not receive.
func (s *Session) stalled() {
	s.mu.Lock()
	over := s.out.bytes > 2*s.options.MaxPendingBytes
	late := !s.waited.IsZero() && time.Since(s.waited) >= s.options.Stall
	s.mu.Unlock()
	switch {
	case over:
		s.end(carillon.Errorf(carillon.ResourceExhausted, "", "the worker left more than %d bytes unreceived and was dropped",
			2*s.options.MaxPendingBytes))
	case late:
		s.end(carillon.Errorf(carillon.ResourceExhausted, "", "the worker received nothing for %v and was dropped", s.options.Stall))
	}
}

// Cancel implements [dispatch.Consumer].
func (s *Session) Cancel(token string) {
	s.mu.Lock()
	a := s.held[token]
	if a == nil {
		s.mu.Unlock()
		return
	}
	f := s.release(token)
	if a.sent || a.had {
		s.out.addToken(&s.out.cancels, token)
		s.announce()
	}
	s.mu.Unlock()
	f.done()
}

// Drain implements [dispatch.Worker].
func (s *Session) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.drain = true
	s.announce()
}

// Wanted implements [dispatch.MultiNodeConsumer].
func (s *Session) Wanted(q partition.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.goodbye {
		s.out.addWanted(q.Address)
		s.announce()
	}
}

// Nodes implements [dispatch.NodeWatcher].
func (s *Session) Nodes(version uint64, addresses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && version > s.out.version {
		s.out.version, s.out.nodes, s.out.moved = version, addresses, true
		s.announce()
	}
}

// Accepted implements [partition.Reporter].
func (s *Session) Accepted(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.out.addToken(&s.out.acks, token)
		s.announce()
	}
}

// Confirmed implements [partition.Confirmer].
func (s *Session) Confirmed(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.out.addToken(&s.out.alive, token)
		s.announce()
	}
}

// Stale implements [partition.Reporter].
func (s *Session) Stale(token string) {
	s.mu.Lock()
	f := s.release(token)
	if s.err == nil {
		s.out.addToken(&s.out.stales, token)
		s.announce()
	}
	s.mu.Unlock()
	f.done()
}

// forget ends the session's hold on a token. The lock is held.
func (s *Session) forget(token string) {
	a := s.held[token]
	if a == nil {
		return
	}
	if a.subscription == nil {
		s.adopted--
	}
	delete(s.held, token)
}

// Receive implements [carillon.Session].
func (s *Session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	for {
		msg, ok, err := s.take()
		if ok || err != nil {
			return msg, err
		}
		select {
		case <-s.news:
		case <-s.over:
		case <-ctx.Done():
			return carillon.WorkResponse{}, ended(ctx.Err())
		}
	}
}

// take returns the next message, if there is one.
func (s *Session) take() (msg carillon.WorkResponse, ok bool, err error) {
	s.mu.Lock()
	full := s.out.bytes > s.options.MaxPendingBytes
	since := time.Now() // before the leases are checked
	msg, ok = s.out.take(s.options.MaxMessageBytes, s.options.MaxMessageItems, s.now())
	if len(msg.Runs) > 0 {
		msg.Since = since
	}
	over := s.out.over
	s.out.over = nil
	for i := range over {
		s.forget(over[i].run.Token)
	}
	s.waited = time.Time{}
	s.stall.Stop()
	if !s.out.empty() {
		s.announce()
	}
	if !ok {
		err = s.err // only after all earlier messages
	}
	s.mu.Unlock()
	if full {
		s.hold()
	}
	s.giveBack(over)
	return msg, ok, err
}

// giveBack hands back runs that were not sent and will not be; their credits are unused.
func (s *Session) giveBack(runs []outgoing) {
	if len(runs) == 0 {
		return
	}
	tokens := make([]string, len(runs))
	for i := range runs {
		tokens[i] = runs[i].run.Token
		runs[i].attempt.subscription.Done(1, 1)
	}
	s.sink.Undelivered(tokens)
}

// Close implements [carillon.Session]. Runs that the worker has received wait for their lease.
func (s *Session) Close() error {
	s.end(carillon.Errorf(carillon.Canceled, "", "the session is closed"))
	return nil
}

// end closes the session with an error; only the first one counts.
func (s *Session) end(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	close(s.over)
	s.stall.Stop()
	unsent, _ := s.drop()
	s.mu.Unlock()
	s.member.Leave()
	if len(unsent) > 0 {
		s.sink.Undelivered(unsent)
	}
}

// drop releases all attempts: those never sent, in order, and those that the worker has. The lock is held.
func (s *Session) drop() (unsent, sent []string) {
	unsent = s.out.clearRuns()
	for token, a := range s.held {
		if a.sent {
			sent = append(sent, token)
		}
	}
	slices.Sort(sent)
	clear(s.held)
	s.adopted = 0
	return unsent, sent
}

// ended returns the error for a context that has ended.
func ended(err error) error {
	kind := carillon.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		kind = carillon.DeadlineExceeded
	}
	return carillon.Errorf(kind, "", "%w", err)
}

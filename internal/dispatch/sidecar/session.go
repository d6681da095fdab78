package sidecar

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/partition"
)

// kind is the kind of the queues that sidecars serve.
const kind = "dapr"

// Session is one sidecar's stream. It is a [dispatch.Worker] for the hub. Its lock is never held while the
// hub or the engine is called.
type Session struct {
	options       Options
	hello         Hello
	sink          dispatch.Sink
	member        *dispatch.Registration
	subscriptions map[string]*dispatch.Subscription // by address

	news chan struct{} // capacity 1; filled when there may be something to receive
	over chan struct{} // closed when err is set

	mu        sync.Mutex
	pending   pending
	byToken   map[string]*attempt // held and in force
	received  map[uint64]*attempt // not answered
	last      uint64              // number of the latest run that was received
	receiving int                 // running calls of Receive
	draining  bool
	err       error // why the session is over

	stall *time.Timer
	idle  time.Time // since when a call of Receive is due and missing; zero: none is
}

// attempt is a run that the sidecar has or is about to receive.
type attempt struct {
	token        string
	key          string
	subscription *dispatch.Subscription
	id           uint64        // 0 = not received
	void         bool          // cancelled: its result is ignored
	size         int           // until it is received, like the next two
	run          *carillon.Run // nil once received, as its data is no longer needed
	target       *carillon.DaprTarget
}

// Delivery is a run on its way to the sidecar.
type Delivery struct {
	ID     uint64 // unique in this session, from 1; the result names it
	Run    *carillon.Run
	Target *carillon.DaprTarget
}

// Open starts a session at a hub. A node that is leaving refuses it as Unavailable.
func Open(h *dispatch.Hub, hello Hello, o Options) (*Session, error) {
	if err := hello.check(); err != nil {
		return nil, err
	}
	addresses := hello.addresses()
	s := &Session{
		options: o.withDefaults(), hello: hello, sink: h.Sink(), subscriptions: make(map[string]*dispatch.Subscription, len(addresses)),
		news: make(chan struct{}, 1), over: make(chan struct{}),
		byToken: map[string]*attempt{}, received: map[uint64]*attempt{},
	}
	s.stall = time.AfterFunc(s.options.Stall, s.stalled)
	s.stall.Stop()
	s.member = h.Register(context.Background(), s, kind, carillon.Hello{
		Namespace: hello.Namespace, Queues: addresses, WorkerID: hello.AppID,
	})
	s.member.Gates, s.member.Credits = hello.gates(), s.options.Credits
	for _, seat := range s.member.Subscriptions {
		s.subscriptions[seat.Queue().Address] = seat
	}
	if err := s.member.Join(); err != nil {
		return nil, err
	}
	return s, nil
}

// Deliver implements [dispatch.Consumer]. Runs far beyond what may wait here are handed back at once: a
// sidecar that reads must not lose its stream because many large runs are due at the same time.
func (s *Session) Deliver(ds []partition.Delivery) bool {
	s.mu.Lock()
	if s.err != nil || s.draining {
		s.mu.Unlock()
		return false
	}
	full := s.full()
	attempts := make([]attempt, len(ds))
	var done, beyond []*attempt
	for i := range ds {
		d, a := &ds[i], &attempts[i]
		*a = attempt{token: d.Run.Token, key: d.Key, subscription: s.subscriptions[d.Queue.Address],
			size: sizeOf(d.Run), run: d.Run, target: d.Target.Dapr}
		if before := s.byToken[a.token]; before != nil && s.letGo(before) { // delivered before, and now again
			done = append(done, before)
		}
		if s.pending.bytes > 2*s.options.MaxPendingBytes {
			beyond = append(beyond, a)
			continue
		}
		s.byToken[a.token] = a
		s.pending.add(a)
	}
	full = full || s.full()
	s.announce()
	s.mu.Unlock()
	if full {
		s.hold() // first, or runs handed back would come here again
	}
	for _, a := range append(done, beyond...) {
		a.subscription.DoneOf(a.key, 1, 1)
	}
	s.giveBack(beyond)
	return true
}

// full reports whether too much waits to be received. The lock is held.
func (s *Session) full() bool { return s.pending.bytes > s.options.MaxPendingBytes }

// hold holds the credits back while too much waits to be received. It must be called after each change to
// pending that starts or ends being full, or happens while it is.
func (s *Session) hold() {
	for _, seat := range s.member.Subscriptions {
		seat.Hold(func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.full()
		})
	}
}

// announce wakes Receive, or starts the stall timer if no call is running. The lock is held.
func (s *Session) announce() {
	select {
	case s.news <- struct{}{}:
	default:
	}
	if s.receiving == 0 {
		s.watch()
	}
}

// watch starts the stall timer. The lock is held.
func (s *Session) watch() {
	if s.idle.IsZero() && s.err == nil {
		s.idle = time.Now()
		s.stall.Reset(s.options.Stall)
	}
}

// stalled ends a session that does not receive.
func (s *Session) stalled() {
	s.mu.Lock()
	late := !s.idle.IsZero() && time.Since(s.idle) >= s.options.Stall
	s.mu.Unlock()
	if late {
		s.end(carillon.Errorf(carillon.ResourceExhausted, "", "the sidecar read nothing for %v and was dropped", s.options.Stall))
	}
}

// Receive waits for runs and returns those that have come. If the session has ended it returns why, and
// nothing more comes. If ctx ends, only the call ends.
func (s *Session) Receive(ctx context.Context) ([]Delivery, error) {
	s.enter(1)
	defer s.enter(-1)
	for {
		ds, err := s.take()
		if len(ds) > 0 || err != nil {
			return ds, err
		}
		select {
		case <-s.news:
		case <-s.over:
		case <-ctx.Done():
			return nil, ended(ctx.Err())
		}
	}
}

// enter counts the calls of Receive. While none runs, the stall timer runs for what waits and what the last
// one took.
func (s *Session) enter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiving += n
	switch {
	case n > 0:
		s.idle = time.Time{}
		s.stall.Stop()
	case s.receiving == 0 && s.last > 0:
		s.watch()
	}
}

// take returns what waits, if anything does.
func (s *Session) take() ([]Delivery, error) {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return nil, s.err
	}
	full := s.full()
	ds := s.pending.take(s.options.MaxBatchBytes, s.options.MaxBatchItems, s.numbered)
	if len(s.pending.queue) > 0 {
		s.announce()
	}
	s.mu.Unlock()
	if full {
		s.hold()
	}
	return ds, nil
}

// numbered gives an attempt its number. The lock is held.
func (s *Session) numbered(a *attempt) Delivery {
	s.last++
	a.id = s.last
	s.received[a.id] = a
	d := Delivery{ID: a.id, Run: a.run, Target: a.target}
	a.run, a.target = nil, nil
	return d
}

// Result reports the end of the run that was received as id; message is the reason of a failure. The result
// of a run that was cancelled meanwhile is ignored. An id that was never given out, or already has a result,
// is InvalidArgument.
func (s *Session) Result(id uint64, ok bool, message string) error {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	a := s.received[id]
	if a == nil {
		defer s.mu.Unlock()
		return carillon.Errorf(carillon.InvalidArgument, "id", "%d is no run that waits for its result", id)
	}
	delete(s.received, id)
	void := a.void
	if !void {
		delete(s.byToken, a.token)
	}
	answered := s.draining && len(s.byToken) == 0
	s.mu.Unlock()
	a.subscription.DoneOf(a.key, 1, 1)
	if !void {
		s.report(a.token, ok, message)
	}
	if answered {
		s.end(leaving())
	}
	return nil
}

func (s *Session) report(token string, ok bool, message string) {
	r := carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}
	if !ok {
		r.Outcome, r.Message = carillon.OutcomeFailure, message
	}
	s.sink.Reports([]partition.Report{{Result: r, Namespace: s.hello.Namespace, Worker: s.hello.AppID, From: s}})
}

// Accepted implements [partition.Reporter]: a sidecar expects no answer.
func (s *Session) Accepted(string) {}

// Stale implements [partition.Reporter].
func (s *Session) Stale(token string) { s.Cancel(token) }

// Cancel implements [dispatch.Consumer]. A run that was received goes on and counts until its result comes: a
// sidecar cannot be told to stop.
func (s *Session) Cancel(token string) {
	s.mu.Lock()
	a := s.byToken[token]
	if a == nil {
		s.mu.Unlock()
		return
	}
	full, unsent := s.full(), s.letGo(a)
	answered := s.draining && len(s.byToken) == 0
	s.mu.Unlock()
	if unsent && full {
		s.hold()
	}
	if unsent {
		a.subscription.DoneOf(a.key, 1, 1)
	}
	if answered {
		s.end(leaving())
	}
}

// letGo releases an attempt and reports whether the sidecar will never see it. The lock is held.
func (s *Session) letGo(a *attempt) (unsent bool) {
	delete(s.byToken, a.token)
	a.void = true
	if a.id != 0 {
		return false
	}
	s.pending.drop(a)
	return true
}

// Drain implements [dispatch.Worker]: nothing more is sent, and the session ends when all that was received
// is answered.
func (s *Session) Drain() {
	s.mu.Lock()
	if s.err != nil || s.draining {
		s.mu.Unlock()
		return
	}
	s.draining = true
	unsent := s.pending.clear()
	for _, a := range unsent {
		delete(s.byToken, a.token)
	}
	answered := len(s.byToken) == 0
	s.mu.Unlock()
	for _, a := range unsent {
		a.subscription.DoneOf(a.key, 1, 0)
	}
	s.giveBack(unsent)
	if answered {
		s.end(leaving())
	}
}

// Close ends the session; its runs are delivered elsewhere at once.
func (s *Session) Close() error {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	if draining { // the node has waited long enough
		s.end(leaving())
		return nil
	}
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
	held := s.drop()
	s.mu.Unlock()
	s.member.Leave() // first, or they would come here again
	s.giveBack(held)
}

// drop releases all attempts in force: those received first, in the order of their numbers. The lock is held.
func (s *Session) drop() []*attempt {
	held := make([]*attempt, 0, len(s.byToken))
	for _, a := range s.received {
		if !a.void {
			held = append(held, a)
		}
	}
	slices.SortFunc(held, func(a, b *attempt) int { return cmp.Compare(a.id, b.id) })
	held = append(held, s.pending.clear()...)
	clear(s.received)
	clear(s.byToken)
	return held
}

// giveBack hands back attempts that the sidecar does not run.
func (s *Session) giveBack(held []*attempt) {
	if len(held) == 0 {
		return
	}
	tokens := make([]string, len(held))
	for i, a := range held {
		tokens[i] = a.token
	}
	s.sink.Undelivered(tokens)
}

func leaving() error {
	return carillon.Errorf(carillon.Unavailable, "", "this node is leaving: connect to another")
}

// ended returns the error for a context that has ended.
func ended(err error) error {
	kind := carillon.Canceled
	if errors.Is(err, context.DeadlineExceeded) {
		kind = carillon.DeadlineExceeded
	}
	return carillon.Errorf(kind, "", "%w", err)
}

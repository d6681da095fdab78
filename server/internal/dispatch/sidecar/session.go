package sidecar

import (
	"cmp"
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// kind is the kind of the queues that sidecars serve.
const kind = "dapr"

// Session is one sidecar's stream. It is a [dispatch.Worker] for the hub and a [delivery.Reporter] for the
// engine.
type Session struct {
	hello  Hello
	handed func(Delivery) // nil: nobody is told
	sink   dispatch.Sink
	stream *stream.Stream

	registration *dispatch.Registration

	// Guarded by the stream's lock.
	received map[uint64]*stream.Attempt // not answered, by number
	settled  chan struct{}              // see Hold; nil: nobody waits
}

// Delivery is a run on its way to the sidecar.
type Delivery struct {
	ID     uint64 // unique in this session, from 1; the result names it
	Run    *carillon.Run
	Target *carillon.DaprTarget
}

// Open starts a session at a hub. A node that is leaving refuses it as Unavailable. What the sidecar names is
// in force before it gets anything, until it has given back everything.
func Open(h *dispatch.Hub, limits Limits, hello Hello, o Options) (*Session, error) {
	if err := hello.check(); err != nil {
		return nil, err
	}
	unlimit, err := limits.NameLimits(hello.limits())
	if err != nil {
		return nil, err
	}
	s := &Session{hello: hello, handed: o.Handed, sink: h.Sink(), received: map[uint64]*stream.Attempt{}}
	r := h.Register(context.Background(), s, kind, carillon.Hello{
		Namespace: hello.Namespace, Queues: hello.addresses(), WorkerID: hello.AppID,
	})
	r.Credits = cmp.Or(o.Credits, DefaultCredits)
	s.registration = r
	s.stream = stream.New(h, r, stream.Options{Consumer: "sidecar", Bounds: o.Bounds, Heartbeat: true,
		Ended: func() { s.settle(); unlimit() }})
	if err := r.Join(); err != nil {
		unlimit()
		return nil, err
	}
	return s, nil
}

// Deliver implements [dispatch.Consumer]. Runs far beyond what may wait here are handed back at once: a
// sidecar that reads must not lose its stream because many large runs are due at the same time.
func (s *Session) Deliver(ds []delivery.Delivery) bool {
	s.stream.Lock()
	defer s.stream.Unlock()
	if !s.stream.Open() {
		return false
	}
	attempts := s.stream.Attempts(ds)
	for i := range attempts {
		a := &attempts[i]
		a.Detail = ds[i].Target.Dapr
		s.stream.Release(a.Token) // it may have been delivered before
		if s.stream.Paused() || s.stream.Overfull() {
			s.stream.GiveBack(a)
		} else {
			s.stream.Hold(a)
		}
	}
	s.stream.Announce()
	return true
}

// Withhold implements [dispatch.Withholder].
func (s *Session) Withhold(q delivery.Queue) {
	s.stream.Lock()
	defer s.stream.Unlock()
	s.stream.GiveBackOf(q)
}

// Receive waits for runs and returns those that have come. If the session has ended it returns why, and
// nothing more comes. If ctx ends, only the call ends.
func (s *Session) Receive(ctx context.Context) ([]Delivery, error) {
	ds, err := stream.Receive(ctx, s.stream, s.next)
	if s.handed != nil {
		for i := range ds {
			s.handed(ds[i])
		}
	}
	return ds, err
}

// next returns what waits, if anything does. The lock is held.
func (s *Session) next(left *stream.Budget) ([]Delivery, bool) {
	ds := stream.Take(s.stream, left, func(a *stream.Attempt) Delivery {
		s.received[a.Number] = a
		return Delivery{ID: a.Number, Run: a.Run, Target: a.Detail.(*carillon.DaprTarget)}
	})
	return ds, len(ds) > 0
}

// Result reports the end of the run that was received as id; message is the reason of a failure. The result
// of a run that was cancelled meanwhile is ignored. An id that was never given out, or already has a result,
// is InvalidArgument.
func (s *Session) Result(id uint64, ok bool, message string) error {
	s.registration.Saw()
	s.stream.Lock()
	a, err := s.received[id], s.stream.Err()
	if err == nil && a == nil {
		err = carillon.Errorf(carillon.InvalidArgument, "id", "%d is no run that waits for its result", id)
	}
	if err != nil {
		s.stream.Unlock()
		return err
	}
	delete(s.received, id)
	inForce := s.stream.Held(a.Token) == a
	if inForce {
		s.stream.Release(a.Token)
	}
	s.stream.Free(a, 1)
	s.settleIfQuiet()
	answered := s.answered()
	s.stream.Unlock()
	if inForce {
		s.report(a.Token, ok, message)
	}
	if answered {
		s.stream.End(leaving())
	}
	return nil
}

func (s *Session) report(token string, ok bool, message string) {
	r := carillon.Result{Token: token, Outcome: carillon.OutcomeSuccess}
	if !ok {
		r.Outcome, r.Message = carillon.OutcomeFailure, message
	}
	s.sink.Reports([]delivery.Report{{Result: r, Namespace: s.hello.Namespace, Worker: s.hello.AppID, From: s}})
}

// answered reports whether the node is leaving and the sidecar has answered everything. The lock is held.
func (s *Session) answered() bool { return s.stream.Leaving() && s.stream.HoldsNone() }

// unlock ends a step, and the session with it if the node is leaving and the sidecar has answered everything.
func (s *Session) unlock() {
	s.settleIfQuiet()
	answered := s.answered()
	s.stream.Unlock()
	if answered {
		s.stream.End(leaving())
	}
}

// Accepted implements [delivery.Reporter]: a sidecar expects no answer.
func (s *Session) Accepted(string) {}

// Stale implements [delivery.Reporter].
func (s *Session) Stale(token string) { s.Cancel(token) }

// Cancel implements [dispatch.Consumer]. A run that was received goes on and takes a credit until its result
// comes: a sidecar cannot be told to stop.
func (s *Session) Cancel(token string) {
	s.stream.Lock()
	defer s.unlock()
	s.stream.Release(token)
}

// Drain implements [dispatch.Worker]: nothing more is sent, and the session ends when all that was received
// is answered.
func (s *Session) Drain() {
	s.stream.Lock()
	defer s.unlock()
	s.stream.Leave()
	s.stream.GiveBackWaiting()
}

// Hold keeps runs back from the sidecar: it is about to close its stream, and would lose what it has not
// answered by then. They wait with their partitions and not here, so that what ends them, on whichever node,
// ends their delivery. Resume ends that. What Hold returns is closed when the sidecar has answered what it
// has, or its session has ended.
func (s *Session) Hold() (settled <-chan struct{}) {
	s.stream.Lock()
	defer s.unlock()
	s.stream.Pause()
	if s.settled == nil {
		s.settled = make(chan struct{})
	}
	settled = s.settled
	return settled
}

// settleIfQuiet tells who waits for it that the sidecar has answered everything. The lock is held.
func (s *Session) settleIfQuiet() {
	if s.settled != nil && s.stream.HoldsNone() {
		close(s.settled)
		s.settled = nil
	}
}

// settle tells that the session has ended, so that nothing is in force.
func (s *Session) settle() {
	s.stream.Lock()
	defer s.stream.Unlock()
	s.settleIfQuiet()
}

// Resume has runs go to the sidecar again.
func (s *Session) Resume() {
	s.stream.Lock()
	defer s.stream.Unlock()
	s.stream.Resume()
}

// StreamBound implements [dispatch.StreamBound].
func (s *Session) StreamBound() {}

// Close ends the session; its runs are delivered elsewhere at once.
func (s *Session) Close() error {
	s.stream.Lock()
	err := stream.Closed()
	if s.stream.Leaving() { // the node has waited long enough
		err = leaving()
	}
	s.stream.Unlock()
	s.stream.End(err)
	return nil
}

func leaving() error {
	return carillon.Errorf(carillon.Unavailable, "", "this node is leaving: connect to another")
}

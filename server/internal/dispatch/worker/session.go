package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/stream"
)

// kind is the kind of the queues that workers serve.
const kind = "worker"

// Session is one worker's connection. It is a [carillon.Session] for the worker, a
// [dispatch.MultiNodeConsumer] for the hub and a [delivery.Reporter] for the engine.
type Session struct {
	options      Options
	id           string // of the worker
	namespace    string // what it may report on
	direct       bool   // the worker has sessions with other nodes, too, and distributes its credits itself
	payloads     bool   // the worker reads payloads that runs refer to
	now          func() time.Time
	sink         dispatch.Sink
	registration *dispatch.Registration
	stream       *stream.Stream
	build        func(*stream.Budget) (carillon.WorkResponse, bool) // next
	// ends a session that leaves far too much unreceived
	overfull *time.Timer

	// Guarded by the stream's lock.
	out      outbox
	adopted  map[string]struct{} // attempts that the worker has, and that other sessions delivered
	liveness liveness
}

func open(ctx context.Context, o Options, h *dispatch.Hub, hello carillon.Hello) (*Session, error) {
	s := &Session{
		options: o, id: hello.WorkerID, namespace: hello.Namespace, direct: hello.Direct,
		payloads: hello.Payloads, now: h.Now, sink: h.Sink(),
		adopted: map[string]struct{}{},
	}
	s.build = s.next
	s.overfull = time.AfterFunc(time.Hour, s.dropOverfull)
	s.overfull.Stop()
	s.registration = h.Register(ctx, s, kind, hello)
	s.stream = stream.New(h, s.registration, stream.Options{
		Consumer: "worker", Bounds: o.Bounds, Others: &s.out,
	})
	if err := s.registration.Join(); err != nil {
		return nil, err
	}
	return s, nil
}

// Deliver implements [dispatch.Consumer].
func (s *Session) Deliver(ds []delivery.Delivery) bool {
	s.stream.Lock()
	defer s.stream.Unlock()
	if !s.stream.Open() {
		return false
	}
	attempts := s.stream.Attempts(ds)
	var unreadable []delivery.Report
	for i := range attempts {
		a := &attempts[i]
		if a.Run.Data.Ref != nil && !s.payloads {
			unreadable = append(unreadable, s.putOff(a.Run))
			s.stream.Free(a, 1)
			continue
		}
		a.Known = s.release(a.Token)
		s.stream.Hold(a)
	}
	if unreadable != nil {
		go s.sink.Reports(unreadable) // not under the lock
	}
	s.announce()
	return true
}

// anotherPause is when a run that a worker cannot read is tried with another one, at the earliest.
const anotherPause = 10 * time.Second

// putOff is the report of a run whose payload does not come with it, and that a worker of an older library
// would handle without. Another worker may get it, so this is no failure.
func (s *Session) putOff(run *carillon.Run) delivery.Report {
	message := fmt.Sprintf("its payload is stored apart, and worker %q does not say that it reads payloads "+
		"(hello.payloads): update its library", s.id)
	at := s.now().Add(anotherPause + rand.N(anotherPause/2))
	return delivery.Report{Worker: s.id, Result: carillon.Result{Token: run.Token, RunID: run.ID,
		Outcome: carillon.OutcomeReschedule, At: at, Message: message}}
}

// announce wakes Receive. The lock is held.
func (s *Session) announce() {
	s.stream.Announce()
	if s.stream.Overfull() {
		s.overfull.Reset(0) // on a goroutine of its own, so that the caller is not held up
	}
}

// dropOverfull ends a session that leaves far too much unreceived.
func (s *Session) dropOverfull() {
	s.stream.Lock()
	over := s.stream.Overfull()
	s.stream.Unlock()
	if over {
		s.stream.End(carillon.Errorf(carillon.ResourceExhausted, "",
			"the worker left more than %d bytes unreceived and was dropped", 2*s.options.Bounds.PendingBytes))
	}
}

// holds reports whether the session holds a token. The lock is held.
func (s *Session) holds(token string) bool {
	_, adopted := s.adopted[token]
	return adopted || s.stream.Held(token) != nil
}

// release ends the session's hold on a token and frees its slot. It reports whether the worker
// knows of the attempt. One that it has not received is not sent any more. The lock is
// held.
//
// An attempt in doubt is delivered again under its token (docs/decisions/0033), perhaps to the session that
// has it already. A session holds each token once, so it must not use a slot for each delivery: the slots of
// the others would never be freed.
func (s *Session) release(token string) (known bool) {
	if _, adopted := s.adopted[token]; adopted {
		delete(s.adopted, token)
		return true
	}
	a := s.stream.Release(token)
	if a == nil {
		return false
	}
	if a.Number > 0 {
		s.stream.Free(a, 0)
	}
	return a.Known
}

// Cancel implements [dispatch.Consumer].
func (s *Session) Cancel(token string) {
	s.stream.Lock()
	defer s.stream.Unlock()
	if s.release(token) && s.stream.Err() == nil {
		s.out.addToken(&s.out.cancels, token)
		s.announce()
	}
}

// say adds to the outbox, unless the session has ended.
func (s *Session) say(add func(o *outbox)) {
	s.stream.Lock()
	defer s.stream.Unlock()
	if s.stream.Err() == nil {
		add(&s.out)
		s.announce()
	}
}

// Withhold implements [dispatch.Withholder].
func (s *Session) Withhold(q delivery.Queue) {
	s.stream.Lock()
	defer s.stream.Unlock()
	s.stream.GiveBackOf(q)
}

// Drain implements [dispatch.Worker].
func (s *Session) Drain() { s.say(func(o *outbox) { o.drain = true }) }

// Wanted implements [dispatch.MultiNodeConsumer].
func (s *Session) Wanted(q delivery.Queue) {
	s.stream.Lock()
	defer s.stream.Unlock()
	if s.stream.Open() {
		s.out.addWanted(q.Address)
		s.announce()
	}
}

// Nodes implements [dispatch.MultiNodeConsumer].
func (s *Session) Nodes(version uint64, addresses []string) {
	s.stream.Lock()
	defer s.stream.Unlock()
	if s.stream.Err() == nil && version > s.out.version {
		s.out.version, s.out.nodes, s.out.moved = version, addresses, true
		s.announce()
	}
}

// Accepted implements [delivery.Reporter].
func (s *Session) Accepted(token string) { s.say(func(o *outbox) { o.addToken(&o.acks, token) }) }

// Confirmed implements [delivery.Confirmer].
func (s *Session) Confirmed(token string) { s.say(func(o *outbox) { o.addToken(&o.alive, token) }) }

// Stale implements [delivery.Reporter].
func (s *Session) Stale(token string) {
	s.say(func(o *outbox) {
		s.release(token)
		o.addToken(&o.stales, token)
	})
}

// Receive implements [carillon.Session].
func (s *Session) Receive(ctx context.Context) (carillon.WorkResponse, error) {
	return stream.Receive(ctx, s.stream, s.build)
}

// next returns the next message, if there is one. The lock is held.
func (s *Session) next(left *stream.Budget) (msg carillon.WorkResponse, ok bool) {
	items := left.Items
	ok = s.out.take(&msg, left)
	since := time.Now() // before the leases are checked
	msg.Runs = stream.Take(s.stream, left, func(a *stream.Attempt) carillon.Run { return *a.Run })
	if len(msg.Runs) > 0 {
		msg.Since = since
	}
	return msg, ok || left.Items < items
}

// Close implements [carillon.Session]. Runs that the worker has received wait for their lease.
func (s *Session) Close() error {
	s.stream.End(stream.Closed())
	return nil
}

// leave handles the worker's goodbye: its runs are free at once. The session stays for the answers to its
// last results.
func (s *Session) leave() {
	s.stream.Lock()
	if !s.stream.Leave() {
		s.stream.Unlock()
		return
	}
	lost, waited := s.stream.Drop()
	for token := range s.adopted {
		lost = append(lost, token)
	}
	slices.Sort(lost)
	clear(s.adopted)
	s.stream.Unlock()
	s.registration.Unsubscribe()
	if len(waited) > 0 {
		s.sink.Undelivered(waited)
	}
	if len(lost) > 0 {
		s.sink.Lost(lost)
	}
}

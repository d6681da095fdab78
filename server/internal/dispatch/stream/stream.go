package stream

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// Bounds of a stream. The zero value means the defaults.
type Bounds struct {
	// MessageBytes is the approximate size of the largest message; default 1 MiB. A single run may be larger.
	MessageBytes int
	// MessageItems is the most runs and tokens in a message; default 4,096.
	MessageItems int
	// PendingBytes is how much may wait to be received before the credits are held back; default 64 MiB. More
	// than twice that is kept for no consumer: a worker is dropped, a sidecar's runs are handed back.
	PendingBytes int
	// Stall is how long something may wait without a call of [Receive] before the stream ends; default 30 s.
	Stall time.Duration
}

// Defaults of the bounds.
const (
	DefaultMessageBytes = 1 << 20
	DefaultMessageItems = 1 << 12
	DefaultPendingBytes = 64 << 20
	DefaultStall        = 30 * time.Second
)

// WithDefaults replaces zeros by the defaults.
func (b Bounds) WithDefaults() Bounds {
	b.MessageBytes = cmp.Or(b.MessageBytes, DefaultMessageBytes)
	b.MessageItems = cmp.Or(b.MessageItems, DefaultMessageItems)
	b.PendingBytes = cmp.Or(b.PendingBytes, DefaultPendingBytes)
	b.Stall = cmp.Or(b.Stall, DefaultStall)
	return b
}

// Options describe a stream.
type Options struct {
	// Consumer is what errors call the consumer: "worker".
	Consumer string
	Bounds   Bounds
	// Heartbeat means that the stream is the heartbeat of its attempts. They have no lease: at its end they
	// are all handed back, and what was received counts as waiting until the next call of [Receive].
	Heartbeat bool
	// Others are the messages beside runs; nil: there are none.
	Others Others
	// Ended is called once the stream has ended and has handed back what it held; nil: nobody is told.
	Ended func()
}

// Others are a session's messages that are no runs. They are called with the stream's lock held.
type Others interface {
	Empty() bool
	Bytes() int // about
}

// state of a stream. It only advances:
//
//	open ──── Leave ────► leaving ──── End ────► ended
//	   └───────────────────── End ─────────────────▲
type state uint8

const (
	open    state = iota
	leaving       // nothing more is delivered; what was received may be answered
	ended
)

// advance moves on to a later state. It reports false if the stream was there before.
func (s *state) advance(to state) bool {
	if *s >= to {
		return false
	}
	*s = to
	return true
}

// Stream holds the attempts of one consumer. Its lock is never held while the hub or the sink is called.
type Stream struct {
	options       Options
	sink          dispatch.Sink
	now           func() time.Time
	registration  *dispatch.Registration
	subscriptions map[string]*dispatch.Subscription // by address

	wake chan struct{} // capacity 1; filled when there may be something to receive
	over chan struct{} // closed when the stream has ended

	mu        sync.Mutex
	state     state
	err       error               // why the stream has ended
	held      map[string]*Attempt // in force, by token
	waiting   waiting             // those of held that were not received
	delivered uint64              // attempts so far
	received  uint64              // attempts so far
	full      bool                // the credits are held back
	paused    bool                // see Pause
	step      step
	left      Budget // of the message that is being built

	receiving int       // calls of Receive
	idle      time.Time // since when a call of Receive is missing; zero: none is
	stall     *time.Timer
}

// step is what the hub and the sink are to learn when the lock is free.
type step struct {
	first       slots // most steps free no other
	freed       []slots
	undelivered []string
}

// slots are deliveries that have ended, and the credits that come back with them.
type slots struct {
	subscription *dispatch.Subscription
	n, again     int
}

func (f *slots) done() {
	if f.subscription != nil {
		f.subscription.Done(f.n, f.again)
	}
}

// adds reports whether an attempt's slot can be freed together with those of f.
func (f *slots) adds(a *Attempt) bool {
	return f.subscription == a.subscription
}

// New returns a stream for a registration that has not joined yet.
func New(h *dispatch.Hub, r *dispatch.Registration, o Options) *Stream {
	o.Bounds = o.Bounds.WithDefaults()
	s := &Stream{
		options: o, sink: h.Sink(), now: h.Now, registration: r,
		subscriptions: make(map[string]*dispatch.Subscription, len(r.Subscriptions)),
		wake:          make(chan struct{}, 1), over: make(chan struct{}), held: map[string]*Attempt{},
	}
	for _, at := range r.Subscriptions {
		s.subscriptions[at.Queue().Address] = at
	}
	s.stall = time.AfterFunc(o.Bounds.Stall, s.stalled)
	s.stall.Stop()
	return s
}

// Subscription returns the subscription at the queue with an address; nil: it is no queue of the stream.
func (s *Stream) Subscription(address string) *dispatch.Subscription { return s.subscriptions[address] }

// Lock begins a step.
func (s *Stream) Lock() { s.mu.Lock() }

// Unlock ends a step: it frees the lock, then passes on what the step released. The credits are held back
// first, or what is handed back would come here again.
func (s *Stream) Unlock() {
	done := s.step
	s.step = step{}
	full := s.paused || s.bytes() > s.options.Bounds.PendingBytes
	hold := full && len(done.undelivered) > 0 // another step may not have got to it
	if s.state == open && full != s.full {    // the credits of one that leaves or has ended come back no more
		s.full, hold = full, true
	}
	s.mu.Unlock()
	if hold {
		s.holdBack()
	}
	done.first.done()
	for i := range done.freed {
		done.freed[i].done()
	}
	s.undelivered(done.undelivered)
}

// Look calls f with the lock held. Unlike a step it releases nothing, so it may be called under the hub's
// lock; f must only read.
func (s *Stream) Look(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *Stream) undelivered(tokens []string) {
	if len(tokens) > 0 {
		s.sink.Undelivered(tokens)
	}
}

// holdBack holds the credits back, or not any more. Of several calls the last one decides by the latest
// state.
func (s *Stream) holdBack() {
	for _, at := range s.registration.Subscriptions {
		at.Hold(func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.full
		})
	}
}

// bytes returns how much waits to be received.
func (s *Stream) bytes() int {
	if s.options.Others == nil {
		return s.waiting.bytes
	}
	return s.waiting.bytes + s.options.Others.Bytes()
}

// Overfull reports whether twice the bound waits.
func (s *Stream) Overfull() bool { return s.bytes() > 2*s.options.Bounds.PendingBytes }

// Open reports whether deliveries are accepted.
func (s *Stream) Open() bool { return s.state == open }

// Leaving reports whether the consumer is leaving and the stream has not ended.
func (s *Stream) Leaving() bool { return s.state == leaving }

// Err returns why the stream has ended; nil: it has not.
func (s *Stream) Err() error { return s.err }

// Delivered returns how many attempts have been delivered so far.
func (s *Stream) Delivered() uint64 { return s.delivered }

// Held returns the attempt in force with a token; nil: there is none here.
func (s *Stream) Held(token string) *Attempt { return s.held[token] }

// HoldsNone reports whether there is no attempt in force.
func (s *Stream) HoldsNone() bool { return len(s.held) == 0 }

// Attempts returns the attempts of deliveries, which the stream does not hold yet.
func (s *Stream) Attempts(ds []delivery.Delivery) []Attempt {
	as := make([]Attempt, len(ds))
	for i := range ds {
		d := &ds[i]
		as[i] = Attempt{Token: d.Run.Token, Run: d.Run, size: sizeOf(d.Run),
			subscription: s.subscriptions[d.Queue.Address]}
	}
	return as
}

// Hold keeps an attempt until it is received. The stream must hold none with its token.
func (s *Stream) Hold(a *Attempt) {
	s.delivered++
	a.Nth = s.delivered
	s.held[a.Token] = a
	s.waiting.add(a)
}

// Release ends the hold on a token and returns its attempt, if there is one. An attempt that was not received
// never will be: its slot is free, and its credit is unused. The slot of one that was received is the
// caller's to free.
func (s *Stream) Release(token string) *Attempt {
	a := s.held[token]
	if a == nil {
		return nil
	}
	delete(s.held, token)
	if a.Number == 0 {
		s.waiting.drop(a)
		s.Free(a, 1)
	}
	return a
}

// Free frees the slot of an attempt and adds again credits when the step ends.
func (s *Stream) Free(a *Attempt, again int) {
	f := &s.step.first
	if f.subscription != nil && !f.adds(a) {
		i := slices.IndexFunc(s.step.freed, func(f slots) bool { return f.adds(a) })
		if i < 0 {
			i = len(s.step.freed)
			s.step.freed = append(s.step.freed, slots{})
		}
		f = &s.step.freed[i]
	}
	f.subscription = a.subscription
	f.n++
	f.again += again
}

// GiveBack hands back an attempt that the stream does not hold or that was not received. It uses no attempt.
func (s *Stream) GiveBack(a *Attempt) {
	if s.held[a.Token] == a {
		s.Release(a.Token)
	} else {
		s.Free(a, 1)
	}
	s.step.undelivered = append(s.step.undelivered, a.Token)
}

// GiveBackWaiting hands back the attempts that were not received.
func (s *Stream) GiveBackWaiting() {
	for a := s.waiting.first(); a != nil; a = s.waiting.first() {
		s.GiveBack(a)
	}
}

// GiveBackOf hands back the attempts of a queue that were not received.
func (s *Stream) GiveBackOf(q delivery.Queue) {
	for _, a := range slices.Clone(s.waiting.queue) {
		if !a.void && a.subscription != nil && a.subscription.Queue() == q {
			s.GiveBack(a)
		}
	}
}

// Leave ends deliveries. It reports false if they had ended.
func (s *Stream) Leave() bool { return s.state.advance(leaving) }

// Drop ends the hold on all attempts and returns their tokens: of those received, in the order of receipt,
// and of those that waited. Their slots end with the subscriptions.
func (s *Stream) Drop() (received, waited []string) {
	var all []*Attempt
	for _, a := range s.held {
		if a.Number > 0 {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *Attempt) int { return cmp.Compare(a.Number, b.Number) })
	for _, a := range all {
		received = append(received, a.Token)
	}
	for _, a := range s.waiting.queue {
		if !a.void {
			waited = append(waited, a.Token)
		}
	}
	clear(s.held)
	s.waiting = waiting{}
	return received, waited
}

// End ends the stream with an error; only the first one counts. It leaves the hub before anything is handed
// back, or that would come here again. The lock must not be held.
func (s *Stream) End(err error) {
	s.Lock()
	if !s.state.advance(ended) {
		s.Unlock()
		return
	}
	s.err = err
	close(s.over)
	s.stall.Stop()
	received, back := s.Drop()
	s.Unlock()
	s.registration.Leave()
	if s.options.Heartbeat {
		back = append(received, back...)
	}
	s.undelivered(back)
	if s.options.Ended != nil {
		s.options.Ended()
	}
}

// Closed is the error of a stream that its consumer closed.
func Closed() error { return carillon.Errorf(carillon.Canceled, "", "the session is closed") }

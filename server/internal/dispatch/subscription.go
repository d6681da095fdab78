package dispatch

import "github.com/carillonhq/carillon/server/internal/delivery"

// Subscription is a consumer's place at one queue, through which it grants credits. All methods are harmless
// after it has left.
type Subscription struct {
	hub       *Hub
	name      delivery.Queue
	consumer  Consumer
	local     bool // the consumer is in this process and may end it, so it gets durable attempts only
	multiNode bool // the consumer wants to know when runs wait and it has no credits

	// Guarded by the hub's lock.
	queue          *queue // nil before its registration joins
	credits        int    // may be below zero: the next grants make up for it
	flight         int    // delivered and not ended
	paused         bool
	gone           bool
	at             int // in queue.open; -1 = no room
	load           int // index + 1 in notifications.loads during Deliver; 0: none
	liveness       liveness
	withoutCredits bool // in queue.withoutCredits
	wantedSent     bool // its consumer was told that runs wait, since it last had credits
}

// room returns how many deliveries may be sent now.
func (s *Subscription) room() int {
	if s.paused || s.gone || s.liveness == silent {
		return 0
	}
	return max(0, s.credits)
}

// Sink returns the sink that the consumer reports to.
func (s *Subscription) Sink() Sink { return s.hub.sink }

// Queue returns the queue of the subscription.
func (s *Subscription) Queue() delivery.Queue { return s.name }

// Grant adds n credits; n < 0 takes credits back, including those that are granted later.
func (s *Subscription) Grant(n int) { s.change(func() { s.credits += n }) }

// TakeBack takes back up to n unused credits and returns how many. Credits that slots rest on stay.
func (s *Subscription) TakeBack(n int) (taken int) {
	s.change(func() {
		taken = max(0, min(n, s.credits))
		if !s.paused && s.liveness != silent {
			taken = max(0, min(taken, s.queue.free()))
		}
		s.credits -= taken
	})
	return taken
}

// Done ends n deliveries and adds again credits.
func (s *Subscription) Done(n, again int) {
	s.change(func() {
		s.queue.end(s, n)
		s.credits += again
	})
}

// Hold calls held to learn whether the credits are held back from now on. It does so under the hub's lock, so
// that of several concurrent calls the last one decides by the latest state. held may take the consumer's own
// lock but must not call the hub.
func (s *Subscription) Hold(held func() bool) { s.change(func() { s.paused = held() }) }

func (s *Subscription) change(f func()) {
	h := s.hub
	var n notifications
	h.mu.Lock()
	if !s.gone {
		s.queue.change(s, f)
		h.settle(&n, s.queue)
	}
	h.unlock(&n)
}

// Outstanding returns how many deliveries are in flight or covered by credits.
func (s *Subscription) Outstanding() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.flight + max(0, s.credits)
}

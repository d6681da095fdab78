package dispatch

import (
	"github.com/carillonhq/carillon/internal/partition"
)

// Subscription is a consumer's place at one queue, through which it says how much it can take. All methods are harmless once it
// has left.
type Subscription struct {
	hub      *Hub
	name     partition.Queue
	consumer Consumer
	local    bool // the consumer is in this process: what it gets must be durable, since it may take the process with it
	asks     bool // the consumer is to be told when runs wait and it has no credits

	// Guarded by the hub's lock.
	queue   *queue         // nil before its member joins
	credits int            // may be below zero: a debt that the next grants pay
	flight  int            // delivered and not done
	keys    map[string]int // how many of those have which key; nil = none ever had one
	paused  bool
	gone    bool
	nth     int  // in queue.subscriptions
	at      int  // in queue.open; -1 = no room
	load    int  // while a Deliver is shared out: its load's number; 0 = none yet
	silent  bool // nothing is delivered before it has spoken
	suspect bool // it was asked for a sign of life and has not spoken since: others go first
	short   bool // it is in queue.short
	told    bool // that runs wait, since it had credits last
}

// room is how many deliveries may come now.
func (s *Subscription) room() int {
	if s.paused || s.gone || s.silent {
		return 0
	}
	return max(0, s.credits)
}

// Sink is whom the consumer reports to.
func (s *Subscription) Sink() Sink { return s.hub.sink }

// Queue is where the subscription is.
func (s *Subscription) Queue() partition.Queue { return s.name }

// Grant lets n more deliveries come; n < 0 takes credits back, those included that are granted later.
func (s *Subscription) Grant(n int) { s.change(func() { s.credits += n }) }

// TakeBack takes up to n unused credits back and says how many: not those that are spoken for.
func (s *Subscription) TakeBack(n int) (taken int) {
	s.change(func() {
		taken = max(0, min(n, s.credits))
		if !s.paused && !s.silent {
			taken = max(0, min(taken, s.queue.unspoken()))
		}
		s.credits -= taken
	})
	return taken
}

// Done says that n deliveries without a key have ended and lets again more come.
func (s *Subscription) Done(n, again int) { s.DoneOf("", n, again) }

// DoneOf says that n deliveries with the key have ended and lets again more come, of whatever key.
func (s *Subscription) DoneOf(key string, n, again int) {
	s.change(func() {
		s.queue.end(s, key, n)
		s.credits += again
	})
}

// Hold asks held whether the credits are held back from now on. It is asked under the hub's lock, so that the last of
// several calls at once decides by the latest state; it may take the consumer's own lock but not call the hub.
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

// Outstanding is how many deliveries are in flight or may come.
func (s *Subscription) Outstanding() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.flight + max(0, s.credits)
}

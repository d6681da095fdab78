package dispatch

import "time"

// A consumer that is stopped, hung or behind a half-open connection keeps its credits. What is delivered to
// it is lost when the lease or the timeout ends, and uses an attempt. So a consumer that sent nothing between
// a delivery and the end of its lease is silent: its credits do not count until it sends something, as if it
// were not there. Nothing is known of the other consumers at that moment, since an idle consumer sends
// nothing either. They are pinged, and until they answer, consumers that were not pinged or have answered go
// first.

// pingAgain is how long after a ping the consumers of a queue are not pinged again.
const pingAgain = time.Second

// liveness is what is known of the consumer of a subscription:
//
//	alive ───── ping ────► suspected ─── silence ───► silent
//	  │ ▲                       │                      ▲  │
//	  │ └────────────────────── heard ─────────────────┼──┘
//	  └─────────────────────── silence ────────────────┘
type liveness uint8

const (
	alive     liveness = iota
	suspected          // it was pinged and has not answered: others go first
	silent             // it gets nothing until it sends something
)

// Listener is a consumer that knows when it last heard from its worker. Calls must not block.
type Listener interface {
	Consumer
	// Unheard reports that an attempt has ended because nothing was heard of it. It is called before Cancel.
	Unheard(token string)
	// Ping asks the consumer for a sign of life, which it reports by [Registration.Heard].
	Ping()
}

// Silence holds the credits back until [Registration.Heard], unless silent denies that they should be. It is
// called under the hub's lock.
func (r *Registration) Silence(silent func() bool) {
	h := r.hub
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	if !r.subscribed || !silent() {
		return
	}
	for _, s := range r.Subscriptions {
		s.queue.silence(s)
		s.queue.ping(&n)
	}
	h.settle(&n, r.queues()...)
}

// Heard records that the consumer has sent something: its credits count again.
func (r *Registration) Heard() {
	h := r.hub
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	if !r.subscribed {
		return
	}
	for _, s := range r.Subscriptions {
		if s.liveness == silent && s.queue.unserved() {
			n.served = append(n.served, s.name)
		}
		s.queue.heard(s)
	}
	h.settle(&n, r.queues()...)
}

// unserved reports whether no consumer may get anything. A transport's consumer is never silent.
func (q *queue) unserved() bool { return len(q.subscriptions) == q.silent }

// silence makes s silent.
func (q *queue) silence(s *Subscription) {
	if s.liveness != silent {
		q.silent++
		q.change(s, func() { s.liveness = silent })
	}
}

// heard ends the silence and the suspicion of s.
func (q *queue) heard(s *Subscription) {
	if s.liveness == silent {
		q.silent--
	}
	q.change(s, func() { s.liveness = alive })
}

// ping pings the consumers with room. Each is suspect until it answers.
func (q *queue) ping(n *notifications) {
	now := time.Now()
	if !q.pinged.IsZero() && now.Sub(q.pinged) < pingAgain {
		return
	}
	q.pinged = now
	for _, s := range q.open {
		l, ok := s.consumer.(Listener)
		if !ok || s.liveness == suspected {
			continue
		}
		s.liveness = suspected
		n.pinged = append(n.pinged, l)
	}
}

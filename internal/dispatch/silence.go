package dispatch

import (
	"time"

	"github.com/carillonhq/carillon/internal/partition"
)

// A consumer that is stopped, hung or behind a half-open connection keeps its credits. What it is handed is
// lost when the lease, or the timeout, ends, and uses an attempt. So a consumer that let one end without a
// word since the delivery is silent: its credits do not count before it has spoken, as if it were not there.
// Nothing can be told of the others at that moment, since an idle consumer says nothing either. They are
// asked for a sign of life, and until it comes those that have not been asked, or have answered, go first.

// askAgain is how long the consumers of a queue are not asked again after they have been.
const askAgain = time.Second

// Listener is a consumer that knows whether it has been heard of. Calls must not block.
type Listener interface {
	Consumer
	// Unheard says that an attempt has ended because nothing was heard of it. It comes before Cancel.
	Unheard(token string)
	// Ping asks the consumer for a sign of life. [Member.Heard] says that there was one.
	Ping()
}

// Silence holds the member's credits back until [Member.Heard], unless silent, which is asked under the hub's
// lock, denies it.
func (m *Registration) Silence(silent func() bool) {
	h := m.hub
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	if !m.subscribed || !silent() {
		return
	}
	for _, s := range m.Subscriptions {
		s.queue.hush(s)
		s.queue.ask(&n)
	}
	h.settle(&n, m.queues()...)
}

// Heard says that the consumer has spoken: its credits count again.
func (m *Registration) Heard() {
	h := m.hub
	var n notifications
	var first []partition.Queue
	h.mu.Lock()
	if m.subscribed {
		for _, s := range m.Subscriptions {
			if s.silent && s.queue.unserved() {
				first = append(first, s.name)
			}
			s.queue.hear(s)
		}
		h.settle(&n, m.queues()...)
	}
	h.unlock(&n)
	for _, q := range first {
		h.sink.Consumers(q)
	}
}

// unserved reports whether nobody is there who may get anything. A transport's consumer is never silent.
func (q *queue) unserved() bool { return len(q.subscriptions) == q.silent }

// hush makes s silent.
func (q *queue) hush(s *Subscription) {
	if !s.silent {
		q.silent++
		q.change(s, func() { s.silent, s.suspect = true, false })
	}
}

// hear ends the silence of s, and the suspicion against it.
func (q *queue) hear(s *Subscription) {
	s.suspect = false
	if s.silent {
		q.silent--
		q.change(s, func() { s.silent = false })
	}
}

// ask has those of whom a sign of life is of use give one. Each is suspect until it has.
func (q *queue) ask(n *notifications) {
	now := time.Now()
	if !q.asked.IsZero() && now.Sub(q.asked) < askAgain {
		return
	}
	q.asked = now
	for _, s := range q.open {
		l, ok := s.consumer.(Listener)
		if !ok || s.suspect {
			continue
		}
		s.suspect = true
		n.asked = append(n.asked, l)
	}
}

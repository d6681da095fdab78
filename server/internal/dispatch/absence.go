package dispatch

import (
	"maps"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// In a cluster a worker has a session with every node, but the nodes learn of it one after the other: a node
// that has just started has no sessions yet, and a worker whose node is gone comes back through another.
// Until then a node does not know who serves a queue. So a queue counts as abandoned only after it was
// unserved for as long as workers may take to arrive.

// absence records since when queues have been unserved. The hub's lock guards it.
type absence struct {
	arrival time.Duration // how long workers may take to arrive; 0: an unserved queue is abandoned at once
	since   time.Time     // when this node started, or a node was added
	left    map[delivery.Queue]time.Time
	pruned  time.Time
}

// newAbsence starts to wait for workers.
func newAbsence(arrival time.Duration) absence {
	now := time.Now()
	return absence{arrival: arrival, since: now, left: map[delivery.Queue]time.Time{}, pruned: now}
}

// begin starts to wait for workers again, since a node was added.
func (a *absence) begin() { a.since = time.Now() }

// note records that the last consumer of a queue has left.
func (a *absence) note(q delivery.Queue) {
	if a.arrival == 0 {
		return
	}
	now := time.Now()
	if now.Sub(a.pruned) >= a.arrival {
		a.pruned = now
		maps.DeleteFunc(a.left, func(_ delivery.Queue, at time.Time) bool { return now.Sub(at) >= a.arrival })
	}
	a.left[q] = now
}

// abandoned reports whether no worker can still be on its way to an unserved queue.
func (a *absence) abandoned(q delivery.Queue) bool {
	if a.arrival == 0 {
		return true
	}
	now := time.Now()
	at, had := a.left[q]
	return now.Sub(a.since) >= a.arrival && !(had && now.Sub(at) < a.arrival)
}

package dispatch

import (
	"time"

	"github.com/carillonhq/carillon/internal/partition"
)

// In a cluster a worker has a session with every node, and the nodes learn of it one after the other: a node that has just come has no
// sessions yet, and a worker that had come through a node which has gone comes back through another. Meanwhile a node knows nothing of
// who serves a queue. So a queue counts as abandoned only after nobody has served it for as long as workers may take to come.

// absence is since when queues have had nobody who takes runs. The hub's lock guards it.
type absence struct {
	arrival time.Duration // how long workers may take to come; 0: they are here or they are not
	since   time.Time     // the node, or one that it had not known, has come
	left    map[partition.Queue]time.Time
	pruned  time.Time
}

// newAbsence begins to wait for workers.
func newAbsence(arrival time.Duration) absence {
	now := time.Now()
	return absence{arrival: arrival, since: now, left: map[partition.Queue]time.Time{}, pruned: now}
}

// begin waits for workers that have yet to come.
func (a *absence) begin() { a.since = time.Now() }

// note says that the last who served a queue has gone.
func (a *absence) note(q partition.Queue) {
	if a.arrival == 0 {
		return
	}
	now := time.Now()
	if now.Sub(a.pruned) >= a.arrival {
		a.pruned = now
		for name, at := range a.left {
			if now.Sub(at) >= a.arrival {
				delete(a.left, name)
			}
		}
	}
	a.left[q] = now
}

// abandoned reports whether nobody is on his way to a queue that nobody serves.
func (a *absence) abandoned(q partition.Queue) bool {
	if a.arrival == 0 {
		return true
	}
	now := time.Now()
	at, had := a.left[q]
	return now.Sub(a.since) >= a.arrival && !(had && now.Sub(at) < a.arrival)
}

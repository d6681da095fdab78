package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Pausing is a consumer that may hold its credits back for a while.
type Pausing interface {
	Consumer
	// PausedUntil returns until when; a time that is past if it does not. It must not call the hub.
	PausedUntil() time.Time
}

// Explaining is a consumer that pauses for different reasons.
type Explaining interface {
	Pausing
	// PausedFor says why the credits were held back last. It must not call the hub.
	PausedFor() string
}

// Trying is a consumer that gets one attempt at a time while it is not known whether it takes more.
type Trying interface {
	Explaining
	// TriesFor says why that is so; "" if it is not. It must not call the hub.
	TriesFor() string
}

// Look returns who takes the runs of a queue.
func (h *Hub) Look(name delivery.Queue) delivery.Consumers {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := delivery.Consumers{Leaving: h.draining}
	if h.slow.active {
		c.Bound = h.slow.bound()
		c.Bounded = c.Bound - h.nodeRoom()
	}
	q := h.queues[name]
	c.Shared = q != nil && h.slow.active && h.shares().of(q) <= 0
	if q == nil || len(q.subscriptions) == 0 {
		c.Left = h.departures[name]
		return c
	}
	c.N, c.Silent, c.Credits, c.InFlight = len(q.subscriptions), q.silent, max(0, q.free()), q.flight
	if most, bounded := q.mostAwaited(); bounded {
		c.Awaited, c.MostAwaited = q.awaited+q.taken, most
	}
	for _, s := range q.subscriptions {
		if p, ok := s.consumer.(Pausing); ok && s.paused {
			c.PausedUntil = p.PausedUntil()
			if e, explains := p.(Explaining); explains {
				c.PausedFor = e.PausedFor()
			}
		}
		if t, ok := s.consumer.(Trying); ok {
			c.TriesFor = t.TriesFor()
		}
	}
	return c
}

// departures are when the last consumers of queues left, by the wall clock. The hub's lock guards them.
type departures map[delivery.Queue]time.Time

// mostDepartures bounds how many are remembered: the latest.
const mostDepartures = 1000

// note records that the last consumer of a queue has left.
func (d departures) note(q delivery.Queue, at time.Time) {
	if _, known := d[q]; !known && len(d) >= mostDepartures {
		delete(d, slices.MinFunc(slices.Collect(maps.Keys(d)),
			func(a, b delivery.Queue) int { return d[a].Compare(d[b]) }))
	}
	d[q] = at
}

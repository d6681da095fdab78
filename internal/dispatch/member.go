package dispatch

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// Member is a worker, or a sidecar of Dapr, that is here, with a seat at each of its queues.
type Member struct {
	Seats   []*Seat // one per queue of the hello, in its order
	Gates   []Gate  // in force while the member has its seats; set before Join
	Credits int     // that each seat begins with; set before Join

	kind   string
	hub    *Hub
	worker Worker
	hello  carillon.Hello
	since  time.Time
	nth    uint64
}

// NewMember prepares the seats of a worker that connected with ctx, at the queues of a kind ("worker", "dapr"); they count
// from Join on.
func (h *Hub) NewMember(ctx context.Context, w Worker, kind string, hello carillon.Hello) *Member {
	m := &Member{hub: h, kind: kind, worker: w, hello: hello, since: h.options.Now()}
	for _, address := range hello.Queues {
		name := partition.Queue{Namespace: hello.Namespace, Kind: kind, Address: address}
		m.Seats = append(m.Seats, &Seat{hub: h, name: name, consumer: w, local: IsLocal(ctx), gone: true})
	}
	return m
}

// Join lets the worker take its seats, once. While the node is leaving it is refused.
func (m *Member) Join() error {
	h := m.hub
	h.mu.Lock()
	if h.draining {
		h.mu.Unlock()
		return carillon.Errorf(carillon.Unavailable, "", "this node is leaving: connect to another")
	}
	h.joined++
	m.nth = h.joined
	h.members[m] = struct{}{}
	var first []partition.Queue
	for _, s := range m.Seats {
		q := h.queues[s.name]
		if q == nil {
			q = newQueue(s.name)
			h.queues[s.name] = q
		}
		if len(q.seats) == 0 {
			first = append(first, s.name)
		}
		s.gone, s.credits = false, m.Credits
		q.add(s)
	}
	h.mu.Unlock()
	for _, q := range first {
		h.sink.Consumers(q)
	}
	return nil
}

// Rise takes the seats away with all their credits, but the worker is still here. Partitions that waited for the last
// consumer of a queue are woken.
func (m *Member) Rise() {
	h := m.hub
	h.mu.Lock()
	var rooms []room
	for _, s := range m.Seats {
		if !s.gone {
			s.queue.remove(s)
			rooms = append(rooms, h.settle(s.queue)...)
		}
	}
	h.mu.Unlock()
	h.tell(rooms)
}

// Leave takes the worker away with its seats.
func (m *Member) Leave() {
	m.Rise()
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	delete(m.hub.members, m)
}

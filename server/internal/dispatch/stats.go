package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// QueueStats is a snapshot of a queue.
type QueueStats struct {
	Queue     delivery.Queue
	Consumers int
	Silent    int // consumers that get nothing until they send something
	Credits   int // deliveries that consumers have room for now
	InFlight  int // delivered and not ended
	Held      int // held back by gates of keys
	Waiting   int // partitions that wait
}

// Queues returns the statistics of the queues in use, sorted by name.
func (h *Hub) Queues() []QueueStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]QueueStats, 0, len(h.queues))
	for _, q := range h.sorted() {
		all = append(all, QueueStats{Queue: q.name, Consumers: len(q.subscriptions), Silent: q.silent,
			Credits: q.credits, InFlight: q.whole.flight, Held: len(q.held), Waiting: len(q.waiting)})
	}
	return all
}

// GateStats is a snapshot of a gate in force.
type GateStats struct {
	Gate
	InFlight  int
	Pending   int    // runs waiting for it; for a whole queue, those that partitions have in memory
	Throttled uint64 // runs that have had to wait since it came into force
}

// Gates returns the statistics of the gates in force, sorted by queue and key.
func (h *Hub) Gates() []GateStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []GateStats
	for _, q := range h.sorted() {
		if g := &q.whole; g.named > 0 {
			st := g.stats(q)
			for _, c := range q.waiting {
				st.Pending += c.want
			}
			all = append(all, st)
		}
		for _, key := range slices.Sorted(maps.Keys(q.gates)) {
			if g := q.gates[key]; g.named > 0 {
				all = append(all, g.stats(q))
			}
		}
	}
	return all
}

func (g *gate) stats(q *queue) GateStats {
	return GateStats{Gate: Gate{q.name, g.key, g.most}, InFlight: g.flight, Pending: g.pending.Len(),
		Throttled: g.throttled}
}

// WorkerStats describes a connected worker or Dapr sidecar.
type WorkerStats struct {
	Kind      string // of its queues: "worker" or "dapr"
	Namespace string
	ID        string
	Labels    map[string]string
	Queues    []string
	Since     time.Time
	InFlight  int // delivered and not ended
}

// Workers returns the connected workers and sidecars, oldest first.
func (h *Hub) Workers() []WorkerStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]WorkerStats, 0, len(h.registrations))
	for _, r := range h.present() {
		w := WorkerStats{Kind: r.kind, Namespace: r.hello.Namespace, ID: r.hello.WorkerID, Labels: r.hello.Labels,
			Queues: slices.Clone(r.hello.Queues), Since: r.since}
		for _, s := range r.Subscriptions {
			w.InFlight += s.flight
		}
		all = append(all, w)
	}
	return all
}

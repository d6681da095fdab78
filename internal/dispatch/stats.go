package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
)

// QueueStats is where a queue stands.
type QueueStats struct {
	Queue     partition.Queue
	Consumers int
	Silent    int // consumers that get nothing before they have spoken again
	Credits   int // deliveries that may come now
	InFlight  int // delivered and not done
	Held      int // held back for gates of keys
	Waiting   int // partitions
}

// Queues is where the queues in use stand, in the order of their names.
func (h *Hub) Queues() []QueueStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]QueueStats, 0, len(h.queues))
	for _, q := range h.sorted() {
		all = append(all, QueueStats{Queue: q.name, Consumers: len(q.subscriptions), Silent: q.silent, Credits: q.credits,
			InFlight: q.whole.flight, Held: len(q.held), Waiting: len(q.waiting)})
	}
	return all
}

// GateStats is where a gate in force stands.
type GateStats struct {
	Gate
	InFlight  int
	Pending   int    // runs that wait for it; of a whole queue, those that partitions have in memory
	Throttled uint64 // runs that have had to wait, since it came into force
}

// Gates is where the gates in force stand, in the order of their queues and keys.
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
	return GateStats{Gate: Gate{q.name, g.key, g.most}, InFlight: g.flight, Pending: g.pending.Len(), Throttled: g.throttled}
}

// WorkerStats is a worker, or a sidecar of Dapr, that is here.
type WorkerStats struct {
	Kind      string // of its queues: "worker" or "dapr"
	Namespace string
	ID        string
	Labels    map[string]string
	Queues    []string
	Since     time.Time
	InFlight  int // delivered and not done
}

// Workers is who is here, in the order in which they came.
func (h *Hub) Workers() []WorkerStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]WorkerStats, 0, len(h.members))
	for _, m := range h.present() {
		w := WorkerStats{Kind: m.kind, Namespace: m.hello.Namespace, ID: m.hello.WorkerID, Labels: m.hello.Labels,
			Queues: slices.Clone(m.hello.Queues), Since: m.since}
		for _, s := range m.Subscriptions {
			w.InFlight += s.flight
		}
		all = append(all, w)
	}
	return all
}

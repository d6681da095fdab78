package dispatch

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
)

// QueueStats is where a queue stands.
type QueueStats struct {
	Queue     partition.Queue
	Consumers int
	Credits   int // deliveries that may come now
	InFlight  int // delivered and not done
	Waiting   int // partitions
}

// Queues is where the queues in use stand, in the order of their names.
func (h *Hub) Queues() []QueueStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]QueueStats, 0, len(h.queues))
	for _, q := range h.sorted() {
		st := QueueStats{Queue: q.name, Consumers: len(q.seats), Credits: q.credits, Waiting: len(q.waiting)}
		for _, s := range q.seats {
			st.InFlight += s.flight
		}
		all = append(all, st)
	}
	return all
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
		for _, s := range m.Seats {
			w.InFlight += s.flight
		}
		all = append(all, w)
	}
	return all
}

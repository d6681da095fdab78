package dispatch

import (
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
	Waiting   int // partitions that wait
	Paused    bool
}

// Queues returns the statistics of the queues in use and of the paused ones, sorted by name.
func (h *Hub) Queues() []QueueStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]QueueStats, 0, len(h.queues))
	for _, q := range h.queues {
		all = append(all, QueueStats{Queue: q.name, Consumers: len(q.subscriptions), Silent: q.silent,
			Credits: q.credits, InFlight: q.flight, Waiting: len(q.waiting), Paused: q.paused})
	}
	for name := range h.paused {
		if h.queues[name] == nil {
			all = append(all, QueueStats{Queue: name, Paused: true})
		}
	}
	slices.SortFunc(all, func(a, b QueueStats) int { return a.Queue.Compare(b.Queue) })
	return all
}

// WorkerStats describes a connected worker or Dapr sidecar.
type WorkerStats struct {
	Kind      string // of its queues: "worker" or "dapr"
	Namespace string
	ID        string
	Labels    map[string]string
	Queues    []string
	Since     time.Time
	Version   string    // as its hello says
	LastSeen  time.Time // when the node last got a message of it
	Credits   int       // deliveries that it has room for now
	InFlight  int       // delivered and not ended
	Silent    bool      // it gets nothing until it sends something
	Nth       uint64    // which one it is, in the order in which they came
}

// Workers returns the connected workers and sidecars, oldest first.
func (h *Hub) Workers() []WorkerStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]WorkerStats, 0, len(h.registrations))
	for _, r := range h.present() {
		w := WorkerStats{Kind: r.kind, Namespace: r.hello.Namespace, ID: r.hello.WorkerID, Labels: r.hello.Labels,
			Queues: slices.Clone(r.hello.Queues), Since: r.since, Version: r.hello.Version,
			LastSeen: time.Unix(0, r.seen.Load()).UTC(), Nth: r.nth, Silent: len(r.Subscriptions) > 0}
		for _, s := range r.Subscriptions {
			w.Credits += s.room()
			w.InFlight += s.flight
			w.Silent = w.Silent && s.liveness == silent
		}
		all = append(all, w)
	}
	return all
}

package dispatch

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/partition"
)

// Registration is a connected worker or Dapr sidecar, with a subscription at each of its queues.
type Registration struct {
	Subscriptions []*Subscription // one per queue of the hello, in its order
	Gates         []Gate          // in force while the registration is subscribed; set before Join
	Credits       int             // that each subscription starts with; set before Join

	kind       string
	hub        *Hub
	worker     Worker
	hello      carillon.Hello
	since      time.Time
	nth        uint64
	subscribed bool // guarded by the hub's lock
}

// Register prepares the subscriptions of a worker that connected with ctx, at the queues of a kind ("worker",
// "dapr"). They count from Join on. A [MultiNodeConsumer] whose hello says Direct is told when runs wait for
// credits.
func (h *Hub) Register(ctx context.Context, w Worker, kind string, hello carillon.Hello) *Registration {
	m := &Registration{hub: h, kind: kind, worker: w, hello: hello, since: h.options.Now()}
	_, asks := w.(MultiNodeConsumer)
	for _, address := range hello.Queues {
		name := partition.Queue{Namespace: hello.Namespace, Kind: kind, Address: address}
		m.Subscriptions = append(m.Subscriptions, &Subscription{hub: h, name: name, consumer: w,
			local: IsLocal(ctx), asks: asks && hello.Direct, gone: true})
	}
	return m
}

// Join puts the subscriptions in force, once. A node that is leaving refuses it.
func (m *Registration) Join() error {
	h := m.hub
	h.mu.Lock()
	if h.draining {
		h.mu.Unlock()
		return carillon.Errorf(carillon.Unavailable, "", "this node is leaving: connect to another")
	}
	h.joined++
	m.nth = h.joined
	h.members[m] = struct{}{}
	m.subscribed = true
	version, nodes := h.version, h.nodes
	var first []partition.Queue
	for _, g := range m.Gates {
		h.served(g.Queue).limit(g.Key, g.Most)
	}
	for _, s := range m.Subscriptions {
		q := h.served(s.name)
		if q.unserved() {
			first = append(first, s.name)
		}
		s.gone, s.silent, s.suspect, s.credits = false, false, false, m.Credits
		q.add(s)
	}
	var n notifications
	h.settle(&n, m.queues()...)
	h.unlock(&n)
	if len(nodes) > 0 {
		m.learn(version, nodes)
	}
	for _, q := range first {
		h.sink.Consumers(q)
	}
	return nil
}

// learn tells the worker where the nodes are, if it wants to know.
func (m *Registration) learn(version uint64, nodes []string) {
	if l, ok := m.worker.(NodeWatcher); ok {
		l.Nodes(version, nodes)
	}
}

// served returns the queue with a name for a consumer or a gate, and creates it if needed.
func (h *Hub) served(name partition.Queue) *queue {
	q := h.queues[name]
	if q == nil {
		q = newQueue(name)
		h.queues[name] = q
	}
	return q
}

// Unsubscribe removes the subscriptions with all their credits, and the gates; the worker stays connected.
// Partitions that waited for the last consumer of a queue are woken.
func (m *Registration) Unsubscribe() {
	h := m.hub
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	if !m.subscribed {
		return
	}
	m.subscribed = false
	for _, s := range m.Subscriptions {
		s.queue.remove(s)
		if s.queue.unserved() {
			h.absence.note(s.name)
		}
	}
	for _, g := range m.Gates {
		h.queues[g.Queue].unlimit(g.Key)
	}
	h.settle(&n, m.queues()...)
}

// queues returns the queues of the subscriptions and gates, each once.
func (m *Registration) queues() []*queue {
	all := make([]*queue, 0, len(m.Subscriptions)+len(m.Gates))
	seen := make(map[*queue]bool, len(m.Subscriptions)+len(m.Gates))
	add := func(name partition.Queue) {
		if q := m.hub.queues[name]; q != nil && !seen[q] {
			seen[q] = true
			all = append(all, q)
		}
	}
	for _, s := range m.Subscriptions {
		add(s.name)
	}
	for _, g := range m.Gates {
		add(g.Queue)
	}
	return all
}

// Leave removes the worker with its subscriptions.
func (m *Registration) Leave() {
	m.Unsubscribe()
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	delete(m.hub.members, m)
}

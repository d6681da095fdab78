package dispatch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Registration is a connected worker or Dapr sidecar, with a subscription at each of its queues.
type Registration struct {
	Subscriptions []*Subscription // one per queue of the hello, in its order
	Credits       int             // that each subscription starts with; set before Join

	kind       string
	hub        *Hub
	worker     Worker
	hello      carillon.Hello
	since      time.Time
	seen       atomic.Int64 // when the node last got a message of it, UTC ns
	nth        uint64
	subscribed bool // guarded by the hub's lock
}

// Register prepares the subscriptions of a worker that connected with ctx, at the queues of a kind ("worker",
// "dapr"). They count from Join on. A [MultiNodeConsumer] whose hello says Direct is told when runs wait for
// credits.
func (h *Hub) Register(ctx context.Context, w Worker, kind string, hello carillon.Hello) *Registration {
	r := &Registration{hub: h, kind: kind, worker: w, hello: hello, since: h.options.Now()}
	r.Saw()
	_, asks := w.(MultiNodeConsumer)
	for _, address := range hello.Queues {
		name := delivery.Queue{Namespace: hello.Namespace, Kind: kind, Address: address}
		r.Subscriptions = append(r.Subscriptions, &Subscription{hub: h, name: name, consumer: w,
			local: IsLocal(ctx), multiNode: asks && hello.Direct, gone: true})
	}
	return r
}

// Saw notes that a message of the worker has come.
func (r *Registration) Saw() { r.seen.Store(r.hub.options.Now().UnixNano()) }

// Join puts the subscriptions in force, once. A node that is leaving refuses it.
func (r *Registration) Join() error {
	h := r.hub
	var n notifications
	h.mu.Lock()
	if h.draining {
		h.mu.Unlock()
		return carillon.Errorf(carillon.Unavailable, "", "this node is leaving: connect to another")
	}
	h.joined++
	r.nth = h.joined
	h.registrations[r] = struct{}{}
	r.subscribed = true
	version, nodes := h.version, h.nodes
	for _, s := range r.Subscriptions {
		q := h.served(s.name)
		if q.unserved() {
			n.served = append(n.served, s.name)
		}
		delete(h.departures, s.name)
		s.gone, s.liveness, s.credits = false, alive, r.Credits
		q.add(s)
	}
	h.settle(&n, r.queues()...)
	h.unlock(&n)
	if len(nodes) > 0 {
		r.passNodes(version, nodes)
	}
	return nil
}

// passNodes tells the worker where the nodes are, if they may all serve it.
func (r *Registration) passNodes(version uint64, nodes []string) {
	if l, ok := r.worker.(MultiNodeConsumer); ok {
		l.Nodes(version, nodes)
	}
}

// served returns the queue with a name for a consumer, and creates it if needed.
func (h *Hub) served(name delivery.Queue) *queue {
	q := h.queues[name]
	if q == nil {
		q = h.newQueue(name)
		h.queues[name] = q
	}
	return q
}

// Unsubscribe removes the subscriptions with all their credits; the worker stays connected.
// Partitions that waited for the last consumer of a queue are woken.
func (r *Registration) Unsubscribe() {
	h := r.hub
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	if !r.subscribed {
		return
	}
	r.subscribed = false
	for _, s := range r.Subscriptions {
		s.queue.remove(s)
		if s.queue.unserved() {
			h.absence.note(s.name)
		}
		if len(s.queue.subscriptions) == 0 {
			h.departures.note(s.name, h.options.Now())
		}
	}
	h.settle(&n, r.queues()...)
}

// queues returns the queues of the subscriptions.
func (r *Registration) queues() []*queue {
	all := make([]*queue, 0, len(r.Subscriptions))
	for _, s := range r.Subscriptions {
		all = append(all, s.queue)
	}
	return all
}

// Leave removes the worker with its subscriptions.
func (r *Registration) Leave() {
	r.Unsubscribe()
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.registrations, r)
}

package dispatch

import (
	"slices"
	"sync"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// A paused queue hands out nothing: for partitions it is as if nobody served it, so what is due is parked in
// the store. Its consumers keep their credits and what they have. What a partition hands over in slots that
// it was given before is handed back, and so is what waits in a session to be received.

// Withholder is a consumer that keeps deliveries for a while before they leave the node.
type Withholder interface {
	Consumer
	// Withhold hands back the deliveries of a queue that have not left the node. It must not block.
	Withhold(q delivery.Queue)
}

// SetPaused names the paused queues, sorted, in place of those before. Once it has returned, no attempt of
// them leaves this node, but for HTTP requests that have begun. It must not be called concurrently.
func (h *Hub) SetPaused(paused []delivery.Queue) {
	var n notifications
	var of []*queue // that are paused now

	h.mu.Lock()
	before := h.paused
	h.paused = make(map[delivery.Queue]bool, len(paused))
	for _, name := range paused {
		h.paused[name] = true
		if q := h.queues[name]; q != nil && !q.paused {
			q.paused = true
			of = append(of, q)
		}
	}
	h.settle(&n, of...)
	for name := range before {
		if h.paused[name] {
			continue
		}
		if q := h.queues[name]; q != nil {
			q.paused = false
		}
		n.served = append(n.served, name) // partitions look for what is parked
	}
	slices.SortFunc(n.served, delivery.Queue.Compare)
	handing := h.handing
	h.handing = &sync.WaitGroup{}
	h.unlock(&n)
	handing.Wait() // what was placed before may be on its way into a session
	for _, q := range of {
		for _, c := range h.consumers(q.name) {
			if w, ok := c.(Withholder); ok {
				w.Withhold(q.name)
			}
		}
	}
}

// served reports whether a consumer may get something of the queue.
func (q *queue) served() bool { return !q.paused && !q.unserved() }

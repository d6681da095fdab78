package dispatch

import "github.com/carillonhq/carillon/server/internal/delivery"

// An attempt that a consumer at a broker completes ends its delivery when the broker has it, and is in force
// for long after that. Credits do not bound how many those are, so a second bound does: slots are given only
// as far as there is room for one more such attempt in its queue on this node.

// Bounded is a consumer that bounds how many attempts of its queue may await their completion on this node.
type Bounded interface {
	Consumer
	// MostAwaited returns how many. It must not call the hub.
	MostAwaited() int
}

// awaited counts attempts of a queue whose completion is awaited.
type awaited struct {
	sum int
	of  map[int]int // by partition
}

// Awaited says of queues how many attempts of partition p await their completion now.
func (h *Hub) Awaited(p int, all []delivery.Awaited) {
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	for _, one := range all {
		h.setAwaited(&n, p, one)
	}
}

func (h *Hub) setAwaited(n *notifications, p int, one delivery.Awaited) {
	a := h.awaited[one.Queue]
	if a == nil {
		a = &awaited{of: map[int]int{}}
		h.awaited[one.Queue] = a
	}
	a.sum += one.N - a.of[p]
	a.of[p] = one.N
	if one.N == 0 {
		delete(a.of, p)
	}
	if len(a.of) == 0 {
		delete(h.awaited, one.Queue)
	}
	if q := h.queues[one.Queue]; q != nil {
		q.awaited = a.sum
		h.settle(n, q)
	}
}

// forgetAwaited forgets the attempts of a partition that has left this node.
func (h *Hub) forgetAwaited(n *notifications, p int) {
	for name, a := range h.awaited {
		if a.of[p] > 0 {
			h.setAwaited(n, p, delivery.Awaited{Queue: name})
		}
	}
}

// mostAwaited returns how many attempts of the queue may await their completion; bounded is false if that
// does not matter.
func (q *queue) mostAwaited() (most int, bounded bool) {
	if !q.opened || len(q.subscriptions) == 0 {
		return 0, false
	}
	b, bounded := q.subscriptions[0].consumer.(Bounded) // a transport's queue has one
	if !bounded {
		return 0, false
	}
	return b.MostAwaited(), true
}

// overAwaited reports whether more attempts await their completion, or are about to leave, than may. An
// attempt that leaves is among them.
func (q *queue) overAwaited() bool {
	most, bounded := q.mostAwaited()
	return bounded && q.awaited+q.taken > most
}

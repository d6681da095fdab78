package dispatch

import (
	"maps"
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Offer gives partition p slots of the queues in which its runs wait: it adds to Slots of each, of which p
// may have some, until they are Now. Each slot is for one delivery. They are p's own until [Hub.Deliver] uses
// or returns them.
//
// If p has fewer than Now of a queue, it waits there for the rest: [Sink.Slots] brings what becomes free. A
// later Offer that names the queue replaces what p waits for. Nobody waits for a queue without consumers, or
// for a paused one.
func (h *Hub) Offer(p delivery.Owner, lineup []delivery.Waiting) {
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	h.beginShares(lineup)
	for i := range lineup {
		w := &lineup[i]
		if w.Slots.Served = h.draining; h.draining || h.paused[w.Queue] {
			continue
		}
		q := h.queue(w.Queue)
		if q == nil {
			continue
		}
		q.unused = false
		w.Slots.N += q.give(p, w, func() int { return h.shares().of(q) })
		w.Slots.Served, w.Slots.Durable = q.served(), q.local > 0
		h.settle(&n, q)
	}
}

// beginShares gives the queues of a lineup their shares of a slow start, before the first of them gets
// anything.
func (h *Hub) beginShares(lineup []delivery.Waiting) {
	if h.draining || h.slow.over || !h.slow.active && !slices.ContainsFunc(lineup, h.slow.overdue) {
		return
	}
	for i := range lineup {
		w := &lineup[i]
		if w.Now == 0 || h.paused[w.Queue] {
			continue
		}
		if q := h.queue(w.Queue); q != nil {
			h.slow.noteHead(h, w.Head)
			q.sharing = sharingSteps
		}
	}
}

// queue returns the queue with a name. It opens it if a transport serves it, and returns nil if nobody does.
func (h *Hub) queue(name delivery.Queue) *queue {
	q := h.queues[name]
	if q != nil {
		return q
	}
	t := h.options.Transports[name.Kind]
	if t == nil {
		return nil
	}
	q = h.newQueue(name)
	q.opened = true
	h.queues[name] = q
	s := &Subscription{hub: h, name: name}
	s.consumer, s.credits = t.Open(name, s)
	q.add(s)
	h.keepSweeping()
	return q
}

// settle ends a step: it gives free slots to waiting partitions, and drops queues without subscriptions and
// claims.
func (h *Hub) settle(n *notifications, qs ...*queue) {
	for _, q := range qs {
		if !h.draining && !h.slow.active {
			q.wake(h.options.Chunk, n)
		}
	}
	if !h.draining && h.slow.active {
		h.wakeAll(n)
	}
	for _, q := range qs {
		if !h.draining && len(h.nodes) > 1 { // otherwise there is no node to take credits from
			q.notifyWanted(n)
		}
		if len(q.subscriptions) == 0 && len(q.claims) == 0 {
			delete(h.queues, q.name)
		}
	}
}

// Deliver hands deliveries of partition p to the consumers with room of their queues, in turn. rest says what
// p has left of its slots: it returns the unused ones, and goes on waiting with the head of what
// still waits, which is less urgent than what has gone. The slices are not kept.
func (h *Hub) Deliver(p int, ds []delivery.Delivery, rest []delivery.Rest) {
	var n notifications
	h.mu.Lock()
	defer h.unlock(&n)
	for i := range ds {
		h.place(&ds[i], len(ds), &n)
	}
	for i := range rest {
		if q := h.queues[rest[i].Queue]; q != nil {
			q.note(p, &rest[i])
			h.settle(&n, q)
		}
	}
}

// place finds the subscription for one of several deliveries.
func (h *Hub) place(d *delivery.Delivery, of int, n *notifications) {
	q := h.queues[d.Queue]
	if q == nil || h.draining {
		n.undelivered = append(n.undelivered, d.Run.Token)
		return
	}
	if s := q.place(d); s != nil {
		n.load(s, d, 1+of/len(q.subscriptions))
		if q.awaited > 0 {
			h.settle(n, q) // it counted as awaited already, beside its slot
		}
		return
	}
	n.undelivered = append(n.undelivered, d.Run.Token)
	h.settle(n, q) // the freed slot may be another partition's
}

// Cancel tells each consumer that holds an attempt to stop it. After a worker reconnected two sessions may
// hold it, and one of them may be dead without knowing. Tokens that nobody holds are ignored.
func (h *Hub) Cancel(cs []delivery.Cancel) {
	for i := range cs {
		for _, c := range h.consumers(cs[i].Queue) {
			if l, ok := c.(Listener); ok && cs[i].Unheard {
				l.Unheard(cs[i].Token)
			}
			c.Cancel(cs[i].Token)
		}
	}
}

// consumers returns the consumers of a queue.
func (h *Hub) consumers(name delivery.Queue) []Consumer {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[name]
	if q == nil {
		return nil
	}
	cs := make([]Consumer, len(q.subscriptions))
	for i, s := range q.subscriptions {
		cs[i] = s.consumer
	}
	return cs
}

// Forget gives back every slot of partition p, which left this node, and ends its waits. p must not take
// slots again unless this node owns it again.
func (h *Hub) Forget(p int) {
	var n notifications
	h.mu.Lock()
	for _, q := range h.sorted() {
		if c, has := q.claims[p]; has {
			q.note(p, &delivery.Rest{Unused: c.taken})
			h.settle(&n, q)
		}
	}
	h.forgetAwaited(&n, p)
	h.unlock(&n)
}

// sorted returns all queues sorted by name, so that the order of notifications does not depend on map order.
func (h *Hub) sorted() []*queue {
	return slices.SortedFunc(maps.Values(h.queues), func(a, b *queue) int { return a.name.Compare(b.name) })
}

package dispatch

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
)

// Take takes up to want slots of q for partition p, whose next run there is head. Each is for one delivery.
//
// With n < want, p waits and gets [Sink.Room] when slots are reserved for it; a later Take replaces what it waits for.
// Without consumers nobody serves q, and p does not wait. Taking 0 ends the wait and gives back what is reserved for p. Slots
// that it took it has until it delivers or returns them.
func (h *Hub) Take(p int, name partition.Queue, want int, head partition.Head) partition.Slots {
	h.mu.Lock()
	if h.draining {
		h.mu.Unlock()
		return partition.Slots{Served: true}
	}
	q := h.queue(name)
	if q == nil {
		h.mu.Unlock()
		return partition.Slots{}
	}
	q.quiet = false
	n := 0
	if want > 0 {
		h.slow.notice(h, head)
		n = q.take(p, want, head, h.room)
	} else {
		q.standDown(p)
	}
	slots := partition.Slots{N: n, Served: len(q.seats) > 0, Durable: q.local > 0}
	rooms := h.settle(q)
	h.mu.Unlock()
	h.tell(rooms)
	return slots
}

// Return gives back n slots that p took and does not need.
func (h *Hub) Return(p int, name partition.Queue, n int) {
	h.mu.Lock()
	var rooms []room
	if q := h.queues[name]; q != nil {
		q.giveBack(p, n)
		rooms = h.settle(q)
	}
	h.mu.Unlock()
	h.tell(rooms)
}

// queue is the queue of a name, opened if a transport serves it; nil if nobody does.
func (h *Hub) queue(name partition.Queue) *queue {
	q := h.queues[name]
	if q != nil {
		return q
	}
	t := h.options.Transports[name.Kind]
	if t == nil {
		return nil
	}
	q = newQueue(name)
	q.opened = true
	h.queues[name] = q
	s := &Seat{hub: h, name: name}
	s.consumer, s.credits = t.Open(name, s)
	q.add(s)
	if h.sweeper == nil {
		h.sweeper = time.AfterFunc(h.options.IdleQueue, h.sweep)
	}
	return q
}

// settle passes free slots to those who wait, and drops a queue that nobody serves or has slots of.
func (h *Hub) settle(q *queue) []room {
	var rooms []room
	switch {
	case h.draining:
	case h.slow.active:
		rooms = h.wakeAll()
	default:
		rooms = q.wake(h.options.Chunk)
	}
	if len(q.seats) == 0 && len(q.claims) == 0 {
		delete(h.queues, q.name)
	}
	return rooms
}

// Deliver hands deliveries to consumers, in turn among those of a queue that have room. The slice is not kept.
func (h *Hub) Deliver(ds []partition.Delivery) {
	loads, undelivered := h.share(ds)
	for _, l := range loads {
		if l.to.consumer.Deliver(l.ds) {
			continue
		}
		for i := range l.ds {
			undelivered = append(undelivered, l.ds[i].Run.Token)
		}
	}
	if len(undelivered) > 0 {
		h.sink.Undelivered(undelivered)
	}
}

// load is what one consumer gets.
type load struct {
	to *Seat
	ds []partition.Delivery
}

// share finds a seat for each delivery; the tokens of those without one are left over.
func (h *Hub) share(ds []partition.Delivery) (loads []load, left []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range ds {
		s := h.place(&ds[i])
		if s == nil {
			left = append(left, ds[i].Run.Token)
			continue
		}
		if s.load == 0 {
			loads = append(loads, load{to: s})
			s.load = len(loads)
		}
		l := &loads[s.load-1]
		l.ds = append(l.ds, ds[i])
	}
	for _, l := range loads {
		l.to.load = 0
	}
	return loads, left
}

// place finds the seat for a delivery; nil: there is none.
func (h *Hub) place(d *partition.Delivery) *Seat {
	q := h.queues[d.Queue]
	if q == nil || h.draining {
		return nil
	}
	s := q.place(d.Partition, d.Durable)
	if s == nil {
		h.settle(q) // wakes nobody: there was no room
	}
	return s
}

// Cancel tells whoever holds an attempt to stop it: after a worker reconnected two sessions may, and one of them may be
// dead without knowing. Tokens that nobody holds are ignored.
func (h *Hub) Cancel(cs []partition.Cancel) {
	for i := range cs {
		for _, c := range h.consumers(cs[i].Queue) {
			c.Cancel(cs[i].Token)
		}
	}
}

func (h *Hub) consumers(name partition.Queue) []Consumer {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[name]
	if q == nil {
		return nil
	}
	cs := make([]Consumer, len(q.seats))
	for i, s := range q.seats {
		cs[i] = s.consumer
	}
	return cs
}

// Forget gives back every slot of partition p, which has left this node, and ends its waits. It must not take afterwards,
// unless it comes again.
func (h *Hub) Forget(p int) {
	h.mu.Lock()
	var rooms []room
	for _, q := range h.sorted() {
		if c, has := q.claims[p]; has {
			q.release(c)
			q.giveBack(p, c.taken)
			rooms = append(rooms, h.settle(q)...)
		}
	}
	h.mu.Unlock()
	h.tell(rooms)
}

// sorted is all queues in the order of their names, so that the order of news does not hang on a map's.
func (h *Hub) sorted() []*queue {
	qs := make([]*queue, 0, len(h.queues))
	for _, q := range h.queues {
		qs = append(qs, q)
	}
	slices.SortFunc(qs, func(a, b *queue) int { return a.name.Compare(b.name) })
	return qs
}

package dispatch

import (
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// notifications collects what a step has to tell others once the hub's lock is free.
type notifications struct {
	slots       []slots
	loads       []load
	undelivered []string
	wanted      []*Subscription  // their consumers learn that runs wait
	pinged      []Listener       // to be pinged
	served      []delivery.Queue // have got their first consumer
}

// slots are on their way to a partition that has waited for them.
type slots struct {
	p delivery.Owner
	q delivery.Queue
	n int
}

// load is the deliveries that one consumer gets.
type load struct {
	to *Subscription
	ds []delivery.Delivery
}

// load adds a delivery for the consumer of s; about expect are to come. The hub's lock is held.
func (n *notifications) load(s *Subscription, d *delivery.Delivery, expect int) {
	if s.load == 0 {
		n.loads = append(n.loads, load{to: s, ds: make([]delivery.Delivery, 0, expect)})
		s.load = len(n.loads)
	}
	l := &n.loads[s.load-1]
	l.ds = append(l.ds, *d)
}

// unlock ends a step: it frees the lock and sends the notifications.
func (h *Hub) unlock(n *notifications) {
	for _, l := range n.loads {
		l.to.load = 0
	}
	handing := h.handing
	handing.Add(len(n.loads))
	h.mu.Unlock()
	for _, l := range n.loads {
		taken := l.to.consumer.Deliver(l.ds)
		handing.Done()
		if taken {
			continue
		}
		for i := range l.ds {
			n.undelivered = append(n.undelivered, l.ds[i].Run.Token)
		}
	}
	for _, s := range n.wanted {
		s.consumer.(MultiNodeConsumer).Wanted(s.name)
	}
	for _, l := range n.pinged {
		l.Ping()
	}
	if len(n.undelivered) > 0 {
		h.sink.Undelivered(n.undelivered)
	}
	for _, s := range n.slots {
		h.sink.Slots(s.p, s.q, s.n)
	}
	for _, q := range n.served {
		h.sink.Consumers(q)
	}
}

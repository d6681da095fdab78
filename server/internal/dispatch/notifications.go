package dispatch

import "github.com/carillonhq/carillon/server/internal/delivery"

// notifications collects what a step has to tell others once the hub's lock is free.
type notifications struct {
	rooms       []room
	loads       []load
	undelivered []string
	wanted      []*Subscription // their consumers learn that runs wait
	pinged      []Listener      // to be pinged
}

// room tells a partition to ask again.
type room struct {
	p int
	q delivery.Queue
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
	h.mu.Unlock()
	for _, l := range n.loads {
		if l.to.consumer.Deliver(l.ds) {
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
	for _, r := range n.rooms {
		h.sink.Room(r.p, r.q)
	}
}

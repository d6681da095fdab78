package dispatch

import (
	"cmp"
	"container/list"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Gate limits how many deliveries of a queue, or of those with a common key, may be in flight at once. It is
// in force while a registration that named it is subscribed; the last one to register decides Most.
//
// The gate of a whole queue is part of the queue's arithmetic: partitions wait for it as for credits. The
// gate of a key cannot be, since a partition takes slots without saying for which runs. So the hub holds back
// deliveries beyond it, in order for each key, and lets one go when another ends.
type Gate struct {
	Queue delivery.Queue
	Key   string // "" = the whole queue
	Most  int
}

// Bounds on what a queue holds back for its gates. Once they are reached, its partitions wait.
const (
	MaxHeld      = 1 << 14  // deliveries
	MaxHeldBytes = 64 << 20 // of their data, about; the last slots of a partition may double it
)

// maxHold bounds how long a delivery is held back, along with half of its timeout, which runs meanwhile.
// Then its partition gets it back and dispatches it again. Otherwise a run could fail by timeout that no
// consumer ever got.
const maxHold = time.Hour

// gate counts what is in flight of a key, limited or not, and keeps what is held back.
type gate struct {
	key       string
	named     int // registrations that want the limit
	most      int
	flight    int
	pending   list.List // of *heldDelivery
	ready     bool      // in queue.ready
	throttled uint64    // deliveries that had to wait for it
}

// heldDelivery is a delivery that is held back.
type heldDelivery struct {
	delivery.Delivery
	gate  *gate
	nth   uint64 // its place in the order in which the queue held deliveries
	size  int
	since time.Time
}

// tooLong reports whether the delivery has been held back for as long as allowed.
func (p *heldDelivery) tooLong(now time.Time) bool {
	most := maxHold
	if p.Timeout > 0 {
		most = min(most, p.Timeout/2)
	}
	return now.Sub(p.since) >= most
}

func anyHeld(*heldDelivery) bool { return true }

// room returns how many more may be in flight.
func (g *gate) room() int {
	if g.named == 0 {
		return math.MaxInt
	}
	return max(0, g.most-g.flight)
}

// gate returns the gate of a key and creates it if needed. Without a key it is the gate of the whole queue.
func (q *queue) gate(key string) *gate {
	if key == "" {
		return &q.whole
	}
	g := q.gates[key]
	if g == nil {
		g = &gate{key: key}
		if q.gates == nil {
			q.gates = map[string]*gate{}
		}
		q.gates[key] = g
	}
	return g
}

// limited reports whether the queue has a limit, or deliveries with a key are still counted.
func (q *queue) limited() bool { return q.whole.named > 0 || len(q.gates) > 0 }

// forgetGate drops a gate of a key that limits and counts nothing.
func (q *queue) forgetGate(g *gate) {
	if g != &q.whole && g.named == 0 && g.flight == 0 && g.pending.Len() == 0 {
		delete(q.gates, g.key)
	}
}

// limit puts a registration's limit in force.
func (q *queue) limit(key string, most int) {
	g := q.gate(key)
	if g.named == 0 {
		g.throttled = 0
	}
	g.named++
	g.most = most
	q.markReady(g)
}

// unlimit removes the limit of a registration.
func (q *queue) unlimit(key string) {
	g := q.gate(key)
	g.named--
	q.markReady(g)
	q.forgetGate(g)
}

// begin counts a delivery to s that passed g.
func (q *queue) begin(s *Subscription, g *gate) {
	q.change(s, func() { s.credits-- })
	s.flight++
	q.whole.flight++
	if g == &q.whole {
		return
	}
	if s.keys == nil {
		s.keys = map[string]int{}
	}
	s.keys[g.key]++
	g.flight++
}

// end ends n of the deliveries with the key that s has in flight.
func (q *queue) end(s *Subscription, key string, n int) {
	s.flight -= n
	q.whole.flight -= n
	if key == "" {
		return
	}
	n = min(n, s.keys[key])
	if n == 0 {
		return
	}
	if s.keys[key] -= n; s.keys[key] == 0 {
		delete(s.keys, key)
	}
	g := q.gate(key)
	g.flight -= n
	q.markReady(g)
	q.forgetGate(g)
}

// endAll ends all that s has in flight, since it leaves.
func (q *queue) endAll(s *Subscription) {
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		n := s.keys[key]
		s.flight += n // end subtracts it again: statistics show it until the worker leaves
		q.whole.flight += n
		q.end(s, key, n)
	}
	q.whole.flight -= s.flight
}

// hold holds a delivery back behind g. It returns false if too many are held back.
func (q *queue) hold(g *gate, d *delivery.Delivery) bool {
	if len(q.held) >= MaxHeld || q.heldBytes >= 2*MaxHeldBytes {
		q.forgetGate(g)
		return false
	}
	if before := q.held[d.Run.Token]; before != nil {
		q.unhold(before)
	}
	if q.held == nil {
		q.held = map[string]*list.Element{}
	}
	q.heldSoFar++
	p := &heldDelivery{Delivery: *d, gate: g, nth: q.heldSoFar, size: len(d.Run.Data.Bytes), since: time.Now()}
	q.held[d.Run.Token] = g.pending.PushBack(p)
	q.heldBytes += p.size
	if g.room() == 0 {
		g.throttled++
	} else {
		q.whole.throttled++
	}
	q.markReady(g)
	return true
}

// unhold ends the hold on a delivery.
func (q *queue) unhold(e *list.Element) {
	p := e.Value.(*heldDelivery)
	p.gate.pending.Remove(e)
	delete(q.held, p.Run.Token)
	q.heldBytes -= p.size
	q.forgetGate(p.gate)
}

// markReady adds a gate to ready if it has a delivery that may pass.
func (q *queue) markReady(g *gate) {
	if !g.ready && q.passable(g) {
		g.ready = true
		q.ready = append(q.ready, g)
	}
}

// passable reports whether g holds back a delivery that it would let go. Deliveries without a key wait for
// the whole queue only, and pass checks that for each of them.
func (q *queue) passable(g *gate) bool {
	return g.pending.Len() > 0 && (g == &q.whole || g.room() > 0)
}

// spare returns how many held deliveries may go on apart from their keys: room that is not another
// partition's slot.
func (q *queue) spare() int { return min(q.credits, q.whole.room()) - q.taken }

// passHeld delivers what was held back and has room now: the keys take turns, and each key keeps its order.
func (q *queue) passHeld(n *notifications) {
	for len(q.ready) > 0 {
		g := q.ready[0]
		if !q.passable(g) {
			g.ready = false
			q.ready[0] = nil
			q.ready = q.ready[1:]
			continue
		}
		if q.spare() <= 0 {
			return
		}
		e := g.pending.Front()
		p := e.Value.(*heldDelivery)
		s := q.pick(p.Durable)
		if s == nil {
			return
		}
		q.begin(s, g)
		q.unhold(e)
		n.load(s, &p.Delivery, 1)
		q.ready = append(q.ready[1:], g)
	}
	q.ready = nil
}

// handBack hands back the held deliveries that which selects, in the order in which they came.
func (q *queue) handBack(n *notifications, which func(*heldDelivery) bool) {
	var all []*heldDelivery
	for _, e := range q.held {
		if p := e.Value.(*heldDelivery); which(p) {
			all = append(all, p)
			q.unhold(e)
		}
	}
	slices.SortFunc(all, func(a, b *heldDelivery) int { return cmp.Compare(a.nth, b.nth) })
	for _, p := range all {
		n.undelivered = append(n.undelivered, p.Run.Token)
	}
}

// drop removes the held delivery with a token, if there is one.
func (q *queue) drop(token string) bool {
	e := q.held[token]
	if e == nil {
		return false
	}
	q.unhold(e)
	return true
}

// countThrottled counts the runs of a claim that must wait for the gate of the whole queue, each once.
func (q *queue) countThrottled(c *claim, short int) {
	if q.whole.named == 0 || q.whole.room() > q.taken {
		short = 0
	}
	q.whole.throttled += uint64(max(0, short-c.throttled))
	c.throttled = short
}

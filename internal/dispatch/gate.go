package dispatch

import (
	"cmp"
	"container/list"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/carillonhq/carillon/internal/partition"
)

// Gate is the most deliveries of a queue that may be in flight at once, or of those of them that share a key. It is in
// force while a member that named it has its subscriptions; the newest word counts for Most.
//
// A gate of a whole queue is part of the queue's arithmetic: partitions wait for it as for credits. One of a key cannot be,
// since a partition takes slots without saying for which runs: a delivery that is too much is held back in the hub, behind
// those of its key that were, and goes on when one of them ends.
type Gate struct {
	Queue partition.Queue
	Key   string // "" = the whole queue
	Most  int
}

// What a queue holds back for its gates. From there on its partitions wait.
const (
	MaxHeld      = 1 << 14  // deliveries
	MaxHeldBytes = 64 << 20 // of their data, about; a single partition's last slots may take it to twice as much
)

// holdAtMost is for how long a delivery is held back at a time, and for half of its timeout at most, which runs meanwhile: then
// its partition gets it back and hands it out anew. Otherwise a run could fail that nobody ever got.
const holdAtMost = time.Hour

// gate counts what is in flight of a key, whether anybody limits it or not, and keeps what is held back.
type gate struct {
	key       string
	named     int // members that want the limit
	most      int
	flight    int
	pending   list.List // of *parcel
	ready     bool      // in queue.ready
	throttled uint64    // deliveries that had to wait for it
}

// heldDelivery is a delivery that is held back.
type heldDelivery struct {
	partition.Delivery
	gate  *gate
	nth   uint64 // of the queue's
	size  int
	since time.Time
}

// tooLong reports whether the delivery has been held back for as long as it may.
func (p *heldDelivery) tooLong(now time.Time) bool {
	most := holdAtMost
	if p.Timeout > 0 {
		most = min(most, p.Timeout/2)
	}
	return now.Sub(p.since) >= most
}

func anyOne(*heldDelivery) bool { return true }

// room is how many more may be in flight.
func (g *gate) room() int {
	if g.named == 0 {
		return math.MaxInt
	}
	return max(0, g.most-g.flight)
}

// gate is that of a key, made if need be. Deliveries without a key are the whole queue's.
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

// limited reports whether somebody limits the queue, or what is in flight of a key is still counted.
func (q *queue) limited() bool { return q.whole.named > 0 || len(q.gates) > 0 }

// forgetGate drops a gate about which there is nothing to know.
func (q *queue) forgetGate(g *gate) {
	if g != &q.whole && g.named == 0 && g.flight == 0 && g.pending.Len() == 0 {
		delete(q.gates, g.key)
	}
}

// limit lets a member's word be in force.
func (q *queue) limit(key string, most int) {
	g := q.gate(key)
	if g.named == 0 {
		g.throttled = 0
	}
	g.named++
	g.most = most
	q.look(g)
}

// unlimit takes the word of a member back.
func (q *queue) unlimit(key string) {
	g := q.gate(key)
	g.named--
	q.look(g)
	q.forgetGate(g)
}

// begin counts a delivery to s.
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

// end takes n deliveries with the key from what s has in flight.
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
	q.look(g)
	q.forgetGate(g)
}

// endAll takes everything that s has in flight away.
func (q *queue) endAll(s *Subscription) {
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		n := s.keys[key]
		s.flight += n // what a member had is shown while it is here
		q.whole.flight += n
		q.end(s, key, n)
	}
	q.whole.flight -= s.flight
}

// hold keeps a delivery back behind g, unless too many are.
func (q *queue) hold(g *gate, d *partition.Delivery) bool {
	if len(q.held) >= MaxHeld || q.heldBytes >= 2*MaxHeldBytes {
		q.forgetGate(g)
		return false
	}
	if before := q.held[d.Run.Token]; before != nil {
		q.letGo(before)
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
	q.look(g)
	return true
}

// letGo ends the hold on a delivery.
func (q *queue) letGo(e *list.Element) {
	p := e.Value.(*heldDelivery)
	p.gate.pending.Remove(e)
	delete(q.held, p.Run.Token)
	q.heldBytes -= p.size
	q.forgetGate(p.gate)
}

// look puts a gate among those to pass when something is behind it that it would let go.
func (q *queue) look(g *gate) {
	if !g.ready && q.passable(g) {
		g.ready = true
		q.ready = append(q.ready, g)
	}
}

// passable reports whether something is behind g that it would let go. What has no key waits for the whole queue only, and
// that is asked for each that goes.
func (q *queue) passable(g *gate) bool {
	return g.pending.Len() > 0 && (g == &q.whole || g.room() > 0)
}

// spare is how many of those held back may go on, were it not for their keys: room that is not another's slot.
func (q *queue) spare() int { return min(q.credits, q.whole.room()) - q.taken - q.reserved }

// pass lets go on what was held back and has room now, in turn among the keys and in order within each.
func (q *queue) pass(n *notifications) {
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
		q.letGo(e)
		n.load(s, &p.Delivery, 1)
		q.ready = append(q.ready[1:], g)
	}
	q.ready = nil
}

// giveUp hands back those held that are meant, in the order in which they came.
func (q *queue) giveUp(n *notifications, which func(*heldDelivery) bool) {
	var all []*heldDelivery
	for _, e := range q.held {
		if p := e.Value.(*heldDelivery); which(p) {
			all = append(all, p)
			q.letGo(e)
		}
	}
	slices.SortFunc(all, func(a, b *heldDelivery) int { return cmp.Compare(a.nth, b.nth) })
	for _, p := range all {
		n.undelivered = append(n.undelivered, p.Run.Token)
	}
}

// drop forgets what is held of a token.
func (q *queue) drop(token string) bool {
	e := q.held[token]
	if e == nil {
		return false
	}
	q.letGo(e)
	return true
}

// wasShort counts a claim's runs that have to wait for the gate of the whole queue, each once.
func (q *queue) wasShort(c *claim, short int) {
	if q.whole.named == 0 || q.whole.room() > q.taken+q.reserved {
		short = 0
	}
	q.whole.throttled += uint64(max(0, short-c.short))
	c.short = short
}

package dispatch

import (
	"container/list"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// queue does the arithmetic of one queue: which consumers offer credits, and which partitions have slots or
// wait. The hub's lock guards it.
//
// A credit is a consumer's promise that it has room for one more attempt. The consumer decides how many there
// are: a worker by its Concurrency (worker/inflight.go), an HTTP target by the limit of its host
// (httptarget/host.go). Of a worker that several nodes serve, internal/multisession/creditpool.go decides
// which node has the credits. Which partition uses a node's credits is decided here.
//
// A partition must not begin an attempt that no consumer has room for: it would be durable, its lease would
// run, and it would have to be taken back. So a partition first takes slots, each backed by a credit:
//
//	                Offer: n slots at once         Deliver
//	free credits ────────────────────────→ taken ──────────→ in flight at a subscription
//	   ↑  │                                ↑   │                        │
//	   │  │ wake: a chunk at most    Offer │   │ Deliver: unused        │ Done
//	   │  └───────────→ reserved ──────────┘   ↓                        ↓
//	   └───────────────────────────────────────┴── the consumer grants again ──┘
//
// A partition that gets fewer slots than it wants waits with its best head. While others wait nothing is
// free, because settle ends every step by reserving what became free for those who wait, best head first. So
// nobody overtakes a waiting partition, and a reserved slot stays reserved until its partition asks again. A
// consumer that leaves takes its credits along even if slots rest on them; free is below zero then, and the
// deliveries concerned find no room.
type queue struct {
	name           delivery.Queue
	subscriptions  []*Subscription
	open           []*Subscription // those with room, in no order; served in turn
	turn           int
	withoutCredits []*Subscription // those of workers with several nodes that have no credits and were not told that runs wait
	credits        int             // sum of the subscriptions' room
	local          int             // subscriptions of consumers in this process
	taken          int             // slots of partitions that are about to deliver
	reserved       int             // slots for partitions that were told to take again
	claims         map[int]*claim
	waiting        waiting
	opened         bool      // opened by a transport, so dropped when idle
	unused         bool      // not used since the last sweep
	silent         int       // subscriptions of silent consumers
	pinged         time.Time // when the consumers were last pinged

	whole     gate                     // of all deliveries; those without a key are held here
	gates     map[string]*gate         // of keys that are limited or in flight
	ready     []*gate                  // those that may let something go, in turn
	held      map[string]*list.Element // what the gates hold back, by token
	heldBytes int
	heldSoFar uint64 // deliveries held back so far
}

// claim is what a partition has or wants of a queue.
type claim struct {
	p         int
	taken     int
	reserved  int
	want      int // while waiting
	head      delivery.Head
	at        int // in waiting; -1 = not waiting
	throttled int // runs that are known to wait for the queue's gate
}

func newQueue(name delivery.Queue) *queue { return &queue{name: name, claims: map[int]*claim{}} }

// free returns how many slots can still be taken; below zero when consumers left whose credits were taken. A
// held delivery keeps its credit but no place in the limit of the whole queue: deliveries that no other gate
// stops may overtake it.
func (q *queue) free() int {
	room := q.credits
	if n := len(q.held); n > 0 {
		room = min(room, MaxHeld) - n
	}
	if q.heldBytes >= MaxHeldBytes {
		room = 0
	}
	return min(room, q.whole.room()) - q.taken - q.reserved
}

// unclaimed returns how many credits are neither taken or reserved nor kept for held deliveries.
func (q *queue) unclaimed() int { return q.credits - q.taken - q.reserved - len(q.held) }

// take gives p up to want slots, first those reserved for it, but no more than the node has room for. If the
// queue is served, p waits for the rest. While others wait nothing is free, so p cannot overtake them.
func (q *queue) take(p, want int, head delivery.Head, room func() int) int {
	c := q.claims[p]
	if c == nil {
		c = &claim{p: p, at: -1}
		q.claims[p] = c
	}
	q.release(c)
	n := max(0, min(want, q.free(), room()))
	c.taken += n
	q.taken += n
	q.countThrottled(c, want-n)
	if n < want && !q.unserved() {
		c.want, c.head = want-n, head
		q.waiting.push(c)
	}
	q.dropEmpty(c)
	return n
}

// note frees slots that p took and does not need, and replaces what p waits with.
func (q *queue) note(p int, r *delivery.Rest) {
	c := q.claims[p]
	if c == nil {
		return
	}
	n := min(r.Unused, c.taken)
	q.taken -= n
	c.taken -= n
	if c.at >= 0 {
		q.waiting.remove(c)
		if c.want, c.head = min(c.want, r.N), r.Head; c.want > 0 {
			q.waiting.push(c)
		}
	}
	q.dropEmpty(c)
}

// endWait ends p's wait and frees what is reserved for it.
func (q *queue) endWait(p int) {
	if c := q.claims[p]; c != nil {
		q.release(c)
		q.dropEmpty(c)
	}
}

// release frees what is reserved for c and ends its wait.
func (q *queue) release(c *claim) {
	q.waiting.remove(c)
	q.reserved -= c.reserved
	c.reserved, c.want = 0, 0
}

// dropEmpty drops an empty claim.
func (q *queue) dropEmpty(c *claim) {
	if c.taken == 0 && c.reserved == 0 && c.at < 0 {
		delete(q.claims, c.p)
	}
}

// place uses a slot of the delivery's partition, or a free one if it has none, and returns the subscription
// that gets the delivery. If s is nil, a gate holds the delivery back, or else there is no room.
func (q *queue) place(d *delivery.Delivery) (s *Subscription, held bool) {
	if c := q.claims[d.Partition]; c != nil && c.taken > 0 {
		c.taken--
		q.taken--
		q.dropEmpty(c)
	} else if q.free() <= 0 {
		return nil, false
	}
	g := q.gate(d.Key)
	if g.pending.Len() > 0 || g.room() == 0 || q.whole.room() == 0 {
		return nil, q.hold(g, d)
	}
	if s = q.pick(d.Durable); s != nil {
		q.begin(s, g)
	}
	q.forgetGate(g)
	return s, false
}

// pick returns the next subscription with room, a suspect one only if there is no other. A consumer in this
// process gets durable attempts only.
func (q *queue) pick(durable bool) *Subscription {
	var suspect *Subscription
	for range q.open {
		q.turn = (q.turn + 1) % len(q.open)
		s := q.open[q.turn]
		switch {
		case s.local && !durable:
		case s.liveness != suspected:
			return s
		case suspect == nil:
			suspect = s
		}
	}
	if suspect != nil {
		q.turn = suspect.at
	}
	return suspect
}

// wake reserves free slots for waiting partitions, best head first, at most a chunk each. If the queue is not
// served any more it wakes all of them, so that they learn it.
func (q *queue) wake(chunk int, n *notifications) {
	for len(q.waiting) > 0 && (q.free() > 0 || q.unserved()) {
		r, _ := q.wakeFirst(chunk)
		n.rooms = append(n.rooms, r)
	}
}

// wakeFirst reserves up to most free slots for the waiting partition with the best head.
func (q *queue) wakeFirst(most int) (r room, n int) {
	c := q.waiting[0]
	n = max(0, min(most, c.want, q.free()))
	q.waiting.remove(c)
	c.reserved, c.want = n, 0
	q.reserved += n
	q.dropEmpty(c)
	return room{c.p, q.name}, n
}

// add adds a subscription.
func (q *queue) add(s *Subscription) {
	s.queue, s.nth, s.at = q, len(q.subscriptions), -1
	q.subscriptions = append(q.subscriptions, s)
	q.credits += s.room()
	if s.local {
		q.local++
	}
	q.sort(s)
}

// remove removes a subscription with its credits and all that is in flight there.
func (q *queue) remove(s *Subscription) {
	q.change(s, func() { s.gone = true })
	if s.withoutCredits {
		s.withoutCredits = false
		q.withoutCredits = slices.DeleteFunc(q.withoutCredits, func(o *Subscription) bool { return o == s })
	}
	q.endAll(s)
	if s.liveness == silent {
		q.silent--
	}
	if s.local {
		q.local--
	}
	last := q.subscriptions[len(q.subscriptions)-1]
	last.nth = s.nth
	q.subscriptions[s.nth] = last
	q.subscriptions[len(q.subscriptions)-1] = nil
	q.subscriptions = q.subscriptions[:len(q.subscriptions)-1]
}

// change calls f, which may change the room of s, and adjusts the queue's sums.
func (q *queue) change(s *Subscription, f func()) {
	before := s.room()
	f()
	q.credits += s.room() - before
	q.sort(s)
}

// sort keeps s among the open subscriptions while it has room, and notes when one of a worker with
// several nodes has run out of credits.
func (q *queue) sort(s *Subscription) {
	if s.credits > 0 {
		s.wantedSent = false
	} else if s.multiNode && !s.wantedSent && !s.withoutCredits && !s.gone {
		s.withoutCredits = true
		q.withoutCredits = append(q.withoutCredits, s)
	}
	switch has := s.room() > 0; {
	case has && s.at < 0:
		s.at = len(q.open)
		q.open = append(q.open, s)
	case !has && s.at >= 0:
		last := q.open[len(q.open)-1]
		last.at = s.at
		q.open[s.at] = last
		q.open[len(q.open)-1] = nil
		q.open = q.open[:len(q.open)-1]
		s.at = -1
	}
}

// creditsWanted reports whether runs wait that more credits would let go.
func (q *queue) creditsWanted() bool {
	return len(q.waiting) > 0 && q.whole.room() > q.taken+q.reserved
}

// notifyWanted tells each subscription without credits, once, that runs wait.
func (q *queue) notifyWanted(n *notifications) {
	if len(q.withoutCredits) == 0 || !q.creditsWanted() {
		return
	}
	for i, s := range q.withoutCredits {
		q.withoutCredits[i], s.withoutCredits = nil, false
		if s.credits <= 0 { // otherwise it is noted again when it runs out
			s.wantedSent = true
			n.wanted = append(n.wanted, s)
		}
	}
	q.withoutCredits = q.withoutCredits[:0]
}

// idle reports whether the queue has no state that must be kept.
func (q *queue) idle() bool {
	if len(q.claims) > 0 || q.limited() {
		return false
	}
	for _, s := range q.subscriptions {
		if s.flight > 0 || s.paused {
			return false
		}
	}
	return true
}

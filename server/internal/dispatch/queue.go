package dispatch

import (
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// queue does the arithmetic of one queue: which consumers offer credits, and which partitions have slots or
// wait. The hub's lock guards it.
//
// A credit is a consumer's promise that it has room for one more attempt. The consumer decides how many there
// are: a worker by its Concurrency (worker/inflight.go in the root module), an HTTP target by the limit of
// its host (httptarget/host.go); a sidecar of Dapr has a fixed number (sidecar/hello.go). Of a worker that
// several nodes serve, internal/multisession/creditpool.go decides which node has the credits. Which
// partition uses a node's credits is decided here.
//
// A partition must not begin an attempt that no consumer has room for: it would be durable, its lease would
// run, and it would have to be taken back. So a partition first gets slots, each backed by a credit:
//
//	              Offer: what is free
//	              wake: a chunk at most            Deliver
//	free credits ──────────────────────→ taken ──────────────→ in flight at a subscription
//	     ↑                                │ Deliver: unused                │ Done
//	     └────────────────────────────────┴── the consumer grants again ───┘
//
// A partition that gets fewer slots than it wants waits with its best head. While others wait nothing is
// free, because Hub.settle (offer.go) ends every step by giving what became free to those who wait, best head
// first. So nobody overtakes a waiting partition. A consumer that leaves takes its credits along even if
// slots rest on them; free is below zero then, and the deliveries concerned find no room.
type queue struct {
	name          delivery.Queue
	subscriptions []*Subscription
	open          []*Subscription // those with room, in no order; served in turn
	turn          int
	// those of workers with several nodes that have no credits and were not told that runs wait
	withoutCredits []*Subscription
	credits        int // sum of the subscriptions' room
	local          int // subscriptions of consumers in this process
	taken          int // slots of partitions that are about to deliver
	claims         map[int]*claim
	waiting        waiting
	paused         bool      // nothing is handed out
	opened         bool      // opened by a transport, so dropped when idle
	unused         bool      // not used since the last sweep
	silent         int       // subscriptions of silent consumers
	pinged         time.Time // when the consumers were last pinged
	flight         int       // deliveries that have not ended
	sharing        int       // steps of a slow start for which the queue has a share of its bound
	awaited        int       // attempts whose completion is awaited, of all partitions of this node
}

// claim is what a partition has or wants of a queue.
type claim struct {
	p     delivery.Owner
	taken int
	want  int // 0: it does not wait
	head  delivery.Head
}

func (h *Hub) newQueue(name delivery.Queue) *queue {
	q := &queue{name: name, claims: map[int]*claim{}, paused: h.paused[name]}
	if a := h.awaited[name]; a != nil {
		q.awaited = a.sum
	}
	return q
}

// free returns how many slots can still be taken; below zero when consumers left whose credits were taken, or
// when a partition came whose attempts are more than may await their completion.
func (q *queue) free() int {
	n := q.credits - q.taken
	if most, bounded := q.mostAwaited(); bounded {
		n = min(n, most-q.awaited-q.taken)
	}
	return n
}

// give gives p what is free of the slots that it wants, but no more than room. If the queue is served, p
// waits for the rest. While others wait nothing is free, so p cannot overtake them.
func (q *queue) give(p delivery.Owner, w *delivery.Waiting, room func() int) int {
	want := w.Now - w.Slots.N
	n := max(0, min(want, q.free()))
	if n > 0 {
		n = max(0, min(n, room()))
	}
	c := q.claims[p.Partition]
	if c == nil {
		if n == 0 && (want <= 0 || !q.served()) {
			return 0
		}
		c = &claim{p: p}
		q.claims[p.Partition] = c
	}
	q.grant(c, n)
	if !q.served() {
		want = n
	}
	q.wait(c, want-n, w.Head)
	return n
}

// grant gives free slots to c.
func (q *queue) grant(c *claim, n int) {
	c.taken += n
	q.taken += n
}

// wait lets c wait for so many slots, or no longer if it wants none.
func (q *queue) wait(c *claim, want int, head delivery.Head) {
	switch {
	case c.want > 0 && want > 0 && c.head == head:
		c.want = want
		return
	case c.want > 0:
		q.waiting.remove(c)
	}
	if c.want, c.head = max(0, want), head; want > 0 {
		q.waiting.push(c)
	}
	q.dropEmpty(c)
}

// note frees slots that p took and does not need, and replaces what p waits with.
func (q *queue) note(p int, r *delivery.Rest) {
	c := q.claims[p]
	if c == nil {
		return
	}
	q.grant(c, -min(r.Unused, c.taken))
	q.wait(c, min(c.want, r.N), r.Head)
}

// dropEmpty drops an empty claim.
func (q *queue) dropEmpty(c *claim) {
	if c.taken == 0 && c.want == 0 {
		delete(q.claims, c.p.Partition)
	}
}

// place uses a slot of the delivery's partition, or a free one if it has none, and returns the subscription
// that gets the delivery; nil if there is no room, or the queue is paused.
func (q *queue) place(d *delivery.Delivery) *Subscription {
	if c := q.claims[d.Partition]; c != nil && c.taken > 0 {
		c.taken--
		q.taken--
		q.dropEmpty(c)
	} else if q.credits <= q.taken || q.overAwaited() {
		return nil
	}
	if q.paused {
		return nil
	}
	s := q.pick(d.Durable)
	if s != nil {
		q.change(s, func() { s.credits-- })
		q.end(s, -1)
	}
	return s
}

// end ends n of the deliveries that s has in flight; n < 0 begins some.
func (q *queue) end(s *Subscription, n int) {
	s.flight -= n
	q.flight -= n
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

// wake gives free slots to waiting partitions, best head first, at most a chunk each. If the queue is not
// served any more, or paused, it ends all waits.
func (q *queue) wake(chunk int, n *notifications) {
	for len(q.waiting) > 0 && (q.free() > 0 || !q.served()) {
		q.wakeFirst(chunk, n)
	}
}

// wakeFirst gives up to most free slots to the waiting partition with the best head.
func (q *queue) wakeFirst(most int, n *notifications) {
	c, given := q.waiting[0], 0
	if q.served() {
		given = max(0, min(most, c.want, q.free()))
	}
	q.grant(c, given)
	n.slots = append(n.slots, slots{c.p, q.name, given})
	q.wait(c, 0, c.head)
}

// add adds a subscription.
func (q *queue) add(s *Subscription) {
	s.queue, s.at = q, -1
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
		q.withoutCredits = without(q.withoutCredits, s)
	}
	q.flight -= s.flight // statistics show s.flight until the worker leaves
	if s.liveness == silent {
		q.silent--
	}
	if s.local {
		q.local--
	}
	q.subscriptions = without(q.subscriptions, s)
}

func without[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(all, func(o T) bool { return o == one })
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

// notifyWanted tells each subscription without credits, once, that runs wait.
func (q *queue) notifyWanted(n *notifications) {
	if len(q.withoutCredits) == 0 || len(q.waiting) == 0 {
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
	if len(q.claims) > 0 {
		return false
	}
	for _, s := range q.subscriptions {
		if s.flight > 0 || s.paused {
			return false
		}
	}
	return true
}

package engine

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// rooms brings the due runs of one partition, in one term, to consumers, and parks those that wait in vain.
// What is due leaves by these calls, each once in a round:
//
//	machine ── AppendAwaited ─► tellAwaited Awaited ──► hub   attempts that have left, and bound what may leave
//	machine ── AppendWaiting ─► ask ───── Offer ────► hub   the queues with due runs; the slots that are free now
//	machine ◄───── Deliver ──── serve                       attempts for these slots, and for those that came by mail
//	                            deliver ─ Deliver ──► hub   the attempts; slots that were not used; what still waits
//	                mailbox ◄──────────── Slots ───── hub   slots that become free later, for the next round
//
// No slot outlasts the round, but for attempts that are to be durable first.
type rooms struct {
	owner      delivery.Owner
	dispatcher Dispatcher
	catchUp    *catchUp

	lineup  []delivery.Waiting     // queues with runs that wait, as of the last dispatch or poll
	moved   map[delivery.Queue]int // attempts made since the last poll
	bounds  []bounded              // of the first of the lineup, as of the last ask
	reduced bool                   // in this round only critical runs leave: the store does not answer
	later   bool                   // to ask again soon for what may not leave yet
	places  map[delivery.Queue]int // in the lineup; for take
	names   []delivery.Queue       // for open

	// What the machine has made in this round; the memory is reused.
	attempts []delivery.Delivery
	rest     []delivery.Rest
	awaited  []delivery.Awaited
}

func newRooms(number int, t store.Term, d Dispatcher, c *catchUp) rooms {
	p := delivery.Owner{Partition: number, Epoch: t.Epoch, Nonce: t.Nonce}
	return rooms{owner: p, dispatcher: d, catchUp: c, moved: map[delivery.Queue]int{},
		places: map[delivery.Queue]int{}}
}

// lineUp finds out which queues have runs that wait in memory.
func (r *rooms) lineUp(m *partition.Machine, now int64) {
	r.lineup = m.Window.AppendWaiting(r.lineup[:0], now)
}

// atOnce is how many runs of a queue a round hands out, so that partitions take turns.
const atOnce = 256

// refuse puts slots that have come by mail into the lineup alone, to be given back.
func (r *rooms) refuse(sent []sentSlots) {
	r.lineup, r.bounds = r.lineup[:0], r.bounds[:0]
	r.take(sent)
}

// take puts slots that have come by mail into the lineup.
func (r *rooms) take(sent []sentSlots) {
	if len(sent) == 0 {
		return
	}
	clear(r.places)
	for i := range r.lineup {
		r.places[r.lineup[i].Queue] = i
	}
	for _, s := range sent {
		if s.to != r.owner {
			continue // they have ended with that term
		}
		i, ok := r.places[s.queue]
		if !ok {
			i = len(r.lineup)
			r.lineup = append(r.lineup, delivery.Waiting{Queue: s.queue})
			r.places[s.queue] = i
		}
		r.lineup[i].Slots.N += s.n
	}
}

// ask asks for slots of all queues in which runs wait, beside those that have come by mail. Of queues all of
// whose runs are in the store it only learns whether they are served.
func (r *rooms) ask(m *partition.Machine, sent []sentSlots, now int64) {
	r.tellAwaited(m)
	m.Queues.CatchUp(r.catchUp.overdue())
	r.lineUp(m, now)
	for i := range r.lineup {
		r.lineup[i].Now = min(r.lineup[i].Now, atOnce)
	}
	r.bounds = r.catchUp.bound(r.owner.Partition, r.lineup, r.bounds[:0])
	r.later = slices.ContainsFunc(r.bounds, func(b bounded) bool { return b.later })
	r.lineup = m.Queues.AppendParked(r.lineup)
	r.take(sent)
	if len(r.lineup) > 0 {
		r.dispatcher.Offer(r.owner, r.lineup)
	}
}

// open returns the queues that have room, as far as is known.
func (r *rooms) open() []delivery.Queue {
	r.names = r.names[:0]
	for i := range r.lineup {
		if w := &r.lineup[i]; w.Slots.Served && (w.Now == 0 || w.Slots.N > 0) {
			r.names = append(r.names, w.Queue)
		}
	}
	return r.names
}

// serve makes attempts of due runs in the slots that were offered. It returns how many, and whether there may
// be room for more.
func (r *rooms) serve(m *partition.Machine, now int64) (served int, more bool) {
	for i := range r.lineup {
		w := &r.lineup[i]
		var b bounded
		if i < len(r.bounds) {
			b = r.bounds[i]
		}
		if w.Slots.N == 0 {
			continue
		}
		n := 0
		if w.Slots.Served {
			n = min(w.Slots.N, w.Now)
		}
		vain := r.reduced && w.Slots.Durable // they would hold their slots until the store is back
		if vain {
			n = 0
		}
		var rest delivery.Rest
		bound := r.catchUp.take(b, n)
		r.attempts, rest = m.Deliver(r.attempts, now, w.Queue, n, w.Slots.Durable, bound)
		n -= rest.Unused
		if rest.Unused = w.Slots.N - n; vain {
			rest.N = 0 // or each slot that becomes free would come, and be returned
		}
		r.rest = append(r.rest, rest)
		r.moved[w.Queue] += n
		next := r.catchUp.left(r.owner.Partition, w.Queue, b, bound, n)
		served, more = served+n, more || next || n == atOnce
	}
	return served, more
}

// tellAwaited tells the hub how many attempts await their completion, as far as that has changed.
func (r *rooms) tellAwaited(m *partition.Machine) {
	if r.awaited = m.Attempts.AppendAwaited(r.awaited[:0]); len(r.awaited) > 0 {
		r.dispatcher.Awaited(r.owner.Partition, r.awaited)
	}
}

// release adds the pending deliveries that have become durable.
func (r *rooms) release(m *partition.Machine, now int64) {
	r.attempts, r.rest = m.Attempts.Granted(r.attempts, r.rest, now)
	r.tellAwaited(m) // before deliver gives up their slots
}

// giveBack returns the slots of the lineup, since nothing may be handed out now.
func (r *rooms) giveBack() {
	for _, w := range r.lineup {
		if w.Slots.N > 0 {
			r.rest = append(r.rest, delivery.Rest{Queue: w.Queue, Unused: w.Slots.N})
		}
	}
}

// deliver passes on the attempts that the machine has made, and what is left of slots and waiting runs.
func (r *rooms) deliver() {
	if len(r.attempts)+len(r.rest) > 0 {
		r.dispatcher.Deliver(r.owner.Partition, r.attempts, r.rest)
	}
	clear(r.attempts) // so that their memory can be freed
	r.attempts, r.rest = r.attempts[:0], r.rest[:0]
}

// stageAtOnce is how many runs of a queue one poll parks.
const stageAtOnce = 10_000

// keepFor bounds what a queue without room keeps in memory while others may be kept out: as much as it
// delivers in this many polls. Parking writes each run once more and reads it again, so for a herd that is
// merely large it would take most of the time.
const keepFor = 10

// free has runs that wait for a permit return those that they have kept if their queue has no consumer: such
// runs of other partitions may have one.
func (r *rooms) free(m *partition.Machine) {
	for _, q := range m.Permits.Kept() {
		look := []delivery.Waiting{{Queue: q}}
		if i := slices.IndexFunc(r.lineup, func(w delivery.Waiting) bool { return w.Queue == q }); i >= 0 {
			look = r.lineup[i : i+1]
		} else {
			r.dispatcher.Offer(r.owner, look)
		}
		if !look[0].Slots.Served {
			m.Permits.ForgoKeptIn(q)
		}
	}
}

// park moves due runs that wait in vain, as of the last ask, to the store: those without a consumer, and
// those of a queue so slow that they keep others out of memory.
func (r *rooms) park(m *partition.Machine, now int64) {
	before := now - int64(partition.StageAfter)
	if m.Window.Crowded(now) {
		m.Window.StageAside(before, stageAtOnce)
	}
	for _, w := range r.lineup {
		switch {
		case !w.Slots.Served:
			m.Window.Stage(w.Queue, before, stageAtOnce)
		case m.Window.Crowded(now) && w.Slots.N < w.Now:
			if most := keepFor * r.moved[w.Queue]; w.N > most {
				m.Window.Stage(w.Queue, before, w.N-most)
			}
		}
	}
	clear(r.moved)
}

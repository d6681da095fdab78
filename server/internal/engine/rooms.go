package engine

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// rooms brings the due runs of one partition, in one term, to consumers: it asks the dispatcher for slots, hands
// out due runs in them, and parks runs that wait in vain.
type rooms struct {
	partition  int
	dispatcher Dispatcher

	lineup []delivery.Waiting     // queues with runs that wait, as of the last dispatch or poll
	moved  map[delivery.Queue]int // attempts made since the last poll

	// What the machine has made in this round; the memory is reused.
	attempts []delivery.Delivery
	rest     []delivery.Rest
}

func newRooms(number int, d Dispatcher) rooms {
	return rooms{partition: number, dispatcher: d, moved: map[delivery.Queue]int{}}
}

// lineUp finds out which queues have runs that wait in memory.
func (r *rooms) lineUp(m *partition.Machine, now int64) {
	r.lineup = m.Window.AppendWaiting(r.lineup[:0], now)
}

// atOnce is how many runs of a queue a round hands out, so that partitions take turns.
const atOnce = 256

// ask asks for slots of all queues in which runs wait. It also names queues all of whose runs are in the store,
// and those of which slots are reserved for this partition: for these it wants none.
func (r *rooms) ask(m *partition.Machine, reserved []delivery.Queue, now int64) {
	r.lineUp(m, now)
	for i := range r.lineup {
		r.lineup[i].Now = min(r.lineup[i].Now, atOnce)
	}
	r.lineup = m.Queues.AppendParked(r.lineup)
	for _, q := range reserved {
		if !slices.ContainsFunc(r.lineup, func(w delivery.Waiting) bool { return w.Queue == q }) {
			r.lineup = append(r.lineup, delivery.Waiting{Queue: q})
		}
	}
	if len(r.lineup) > 0 {
		r.dispatcher.Offer(r.partition, r.lineup)
	}
}

// serve makes attempts of due runs in the slots that were offered. It returns how many, and whether there may
// be room for more.
func (r *rooms) serve(m *partition.Machine, now int64) (served int, more bool) {
	for i := range r.lineup {
		w := &r.lineup[i]
		if w.Slots.N == 0 {
			continue
		}
		var rest delivery.Rest
		r.attempts, rest = m.Deliver(r.attempts, now, w.Queue, w.Slots.N, w.Slots.Durable)
		r.rest = append(r.rest, rest)
		n := w.Slots.N - rest.Unused
		r.moved[w.Queue] += n
		served, more = served+n, more || n == atOnce
	}
	return served, more
}

// release adds the pending deliveries that have become durable.
func (r *rooms) release(m *partition.Machine, now int64) {
	var spare []delivery.Queue
	r.attempts, spare = m.Attempts.Granted(r.attempts, now)
	for _, q := range spare {
		r.rest = append(r.rest, m.Queues.Rest(q, 1, now))
	}
}

// giveBack returns the slots that were offered.
func (r *rooms) giveBack() {
	for _, w := range r.lineup {
		r.rest = append(r.rest, delivery.Rest{Queue: w.Queue, Unused: w.Slots.N})
	}
	r.deliver()
}

// deliver passes on the attempts that the machine has made, and what is left of slots and waiting runs.
func (r *rooms) deliver() {
	if len(r.attempts)+len(r.rest) > 0 {
		r.dispatcher.Deliver(r.partition, r.attempts, r.rest)
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

// park moves due runs that wait in vain, as of the last ask, to the store: those without a consumer, and those
// of a queue so slow that they keep others out of memory.
func (r *rooms) park(m *partition.Machine, now int64) {
	before := now - int64(m.Window.StageAfter())
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

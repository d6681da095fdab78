package engine

import (
	"maps"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// rooms is what one partition, in one term, knows about room for its queues, and how it uses it: it takes
// slots from the dispatcher, hands out due runs in them, and parks runs that wait in vain.
type rooms struct {
	partition  int
	dispatcher Dispatcher

	blocked  map[delivery.Queue]bool // queues without room; the dispatcher reports when there is some
	unserved map[delivery.Queue]bool // queues without a consumer
	moved    map[delivery.Queue]int  // attempts delivered since the last poll
	lineup   []partition.Waiting     // queues with runs that wait, as of the last dispatch or poll
	parked   []delivery.Queue        // queues with runs in the store, as of the last dispatch

	// Memory that is reused for what leaves the machine.
	attempts []delivery.Delivery
	rest     []delivery.Rest
}

func newRooms(number int, d Dispatcher) rooms {
	return rooms{partition: number, dispatcher: d, blocked: map[delivery.Queue]bool{}, unserved: map[delivery.Queue]bool{},
		moved: map[delivery.Queue]int{}}
}

// opened records in which queues there is room, and which have got a consumer.
func (r *rooms) opened(room, consumers []delivery.Queue) {
	for _, q := range room {
		delete(r.blocked, q)
	}
	for _, q := range consumers {
		delete(r.blocked, q)
		delete(r.unserved, q)
	}
}

// closed reports whether a queue has no room or no consumer.
func (r *rooms) closed(q delivery.Queue) bool { return r.blocked[q] || r.unserved[q] }

// takeAtOnce is how many slots of a queue a round takes, so that partitions take turns.
const takeAtOnce = 256

// serve hands out due runs of all queues for which there is room. It returns how many it handed out, and
// whether there may be room for more.
func (r *rooms) serve(m *partition.Machine, now int64) (served int, more bool) {
	r.lineUp(m, now)
	for _, w := range r.lineup {
		if !r.closed(w.Queue) && w.Now > 0 {
			n := r.serveQueue(m, w, now)
			served, more = served+n, more || n == takeAtOnce
		}
	}
	r.deliver()
	return served, more
}

// serveQueue makes attempts of due runs of one queue, as far as there is room.
func (r *rooms) serveQueue(m *partition.Machine, w partition.Waiting, now int64) (served int) {
	want := min(w.Now, takeAtOnce)
	slots := r.dispatcher.Take(r.partition, w.Queue, want, w.Head)
	switch {
	case !slots.Served:
		r.unserved[w.Queue] = true
		return 0
	case slots.N < want:
		r.blocked[w.Queue] = true
	}
	if slots.N == 0 {
		return 0
	}
	var rest delivery.Rest
	r.attempts, rest = m.Deliver(r.attempts, now, w.Queue, slots.N, slots.Durable)
	r.rest = append(r.rest, rest)
	if rest.N == 0 { // what else waited has gone to wait for permits
		delete(r.blocked, w.Queue)
	}
	served = slots.N - rest.Unused
	r.moved[w.Queue] += served
	return served
}

// deliverDurable delivers the pending deliveries that have become durable.
func (r *rooms) deliverDurable(m *partition.Machine, now int64) {
	var spare []delivery.Queue
	r.attempts, spare = m.Attempts.Granted(r.attempts, now)
	for _, q := range spare {
		r.rest = append(r.rest, m.Queues.Rest(q, 1, now))
	}
	r.deliver()
}

// deliver passes on the attempts that the machine has made, and what is left.
func (r *rooms) deliver() {
	if len(r.attempts)+len(r.rest) > 0 {
		r.dispatcher.Deliver(r.partition, r.attempts, r.rest)
	}
	clear(r.attempts) // so that their memory can be freed
	r.attempts, r.rest = r.attempts[:0], r.rest[:0]
}

// giveBack returns slots that were reserved for runs that are no longer waiting.
func (r *rooms) giveBack(room []delivery.Queue) {
	for _, q := range room {
		if !r.blocked[q] {
			r.dispatcher.Take(r.partition, q, 0, delivery.Head{})
		}
	}
}

// served asks whether a queue has a consumer. It gives back any slots of the queue that the partition holds.
func (r *rooms) served(q delivery.Queue) bool {
	served := r.dispatcher.Take(r.partition, q, 0, delivery.Head{}).Served
	if !served {
		r.unserved[q] = true // until Consumers reports one
	}
	return served
}

// stageAtOnce is how many runs of a queue one poll parks.
const stageAtOnce = 10_000

// keepFor bounds what a queue without room keeps in memory while others may be kept out: as much as it
// delivers in this many polls. Parking writes each run once more and reads it again, so for a herd that is
// merely large it would take most of the time.
const keepFor = 10

// lineUp finds out which queues have runs that wait.
func (r *rooms) lineUp(m *partition.Machine, now int64) {
	r.lineup = m.Window.AppendWaiting(r.lineup[:0], now)
}

// park moves due runs that wait in vain, as of the last lineUp, to the store: those without a consumer, and
// those of a queue so slow that they keep others out of memory.
func (r *rooms) park(m *partition.Machine, now int64) {
	maps.DeleteFunc(r.unserved, func(q delivery.Queue, _ bool) bool { return !m.Queues.Remembers(q) })
	before := now - int64(m.Window.StageAfter())
	if m.Window.Crowded(now) {
		m.Window.StageAside(before, stageAtOnce)
	}
	for _, w := range r.lineup {
		switch {
		case r.unserved[w.Queue]:
			m.Window.Stage(w.Queue, before, stageAtOnce)
		case m.Window.Crowded(now) && r.blocked[w.Queue]:
			if most := keepFor * r.moved[w.Queue]; w.N > most {
				m.Window.Stage(w.Queue, before, w.N-most)
			}
		}
	}
	clear(r.moved)
}

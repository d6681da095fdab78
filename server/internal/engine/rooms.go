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

// takeAtOnce is how many slots are taken at a time, so that partitions take turns.
const takeAtOnce = 256

// serve hands out due runs of all queues for which there is room. It returns how many it handed out.
func (r *rooms) serve(m *partition.Machine, now int64) (served int) {
	r.lineUp(m, now)
	for _, w := range r.lineup {
		if !r.closed(w.Queue) {
			served += r.serveQueue(m, w, now)
		}
	}
	return served
}

// serveQueue hands out due runs of one queue until there is no more room or none waits.
func (r *rooms) serveQueue(m *partition.Machine, w partition.Waiting, now int64) (served int) {
	for w.Now > 0 {
		want := min(w.Now, takeAtOnce)
		slots := r.dispatcher.Take(r.partition, w.Queue, want, w.Head)
		if !slots.Served {
			r.unserved[w.Queue] = true
			return served
		}
		if slots.N == 0 {
			r.blocked[w.Queue] = true
			return served
		}
		ds, spare := m.Deliver(now, w.Queue, slots.N, slots.Durable)
		r.deliver(ds)
		r.moved[w.Queue] += slots.N - spare
		w.Now -= slots.N
		served += slots.N - spare
		if spare > 0 { // the remaining runs wait for permits
			r.dispatcher.Return(r.partition, w.Queue, spare)
			return served
		}
		w.Head = m.Queues.Head(w.Queue, now) // what waits now is less urgent: other partitions may go first
	}
	return served
}

func (r *rooms) deliver(ds []delivery.Delivery) {
	if len(ds) > 0 {
		r.dispatcher.Deliver(ds)
	}
}

// deliverDurable delivers the pending deliveries that have become durable.
func (r *rooms) deliverDurable(m *partition.Machine, now int64) {
	ds, spare := m.Attempts.Granted(now)
	r.deliver(ds)
	for _, q := range spare {
		r.dispatcher.Return(r.partition, q, 1)
	}
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

package partition

import (
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/heaps"
)

// priorities is the number of priorities; 0 is the highest.
const priorities = 4

// ageStep is how long a due run must wait to be treated like a newly due run of the next higher priority.
// Aging keeps low priorities from starving.
const ageStep = 30 * time.Second

// Queues are the queues in which due runs wait, in memory or in the store.
type Queues struct {
	out    *builder
	queues map[delivery.Queue]*queue
	active []*queue // those in which due runs wait
	spare  *queue   // a forgotten queue, reused for the next new one

	recording []uint64 // batches, not durable yet, that change which queues are named as parked; ascending
	recorded  uint64   // the last durable one
}

// queue holds the due runs in memory for one target address.
type queue struct {
	// allocated again for each use of this memory: attempts in force still point to the old one
	name   *delivery.Queue
	lists  [priorities]heaps.Of[*entry]
	listed bool // in Queues.active
	parked parked
}

// len returns how many runs wait.
func (q *queue) len() int {
	n := 0
	for i := range q.lists {
		n += len(q.lists[i])
	}
	return n
}

// next returns the priority whose first run goes next, -1 if nothing waits. It is the highest priority,
// unless the first run of a lower one has aged past it.
func (q *queue) next(now int64) int {
	best, bestScore := -1, int64(0)
	for rank := range q.lists {
		if len(q.lists[rank]) == 0 {
			continue
		}
		score := int64(rank) - (now-q.lists[rank][0].readyAt)/int64(ageStep)
		if best < 0 || score < bestScore {
			best, bestScore = rank, score
		}
	}
	return best
}

// head returns the first run of a priority, of which some wait.
func (q *queue) head(rank int) delivery.Head {
	return delivery.Head{Priority: uint8(rank), Due: q.lists[rank][0].state.Run.Due}
}

// queue finds or makes the queue.
func (s *Queues) queue(q delivery.Queue) *queue {
	st := s.queues[q]
	if st == nil {
		if st = s.spare; st == nil {
			st = &queue{}
		}
		s.spare = nil
		st.name, st.parked = new(q), parked{none: true}
		s.queues[q] = st
	}
	return st
}

// forgetEmpty forgets a queue in which nothing is left.
func (s *Queues) forgetEmpty(q *queue) {
	if p := &q.parked; !q.listed && p.none && !p.recorded && p.recalled == 0 && s.queues[*q.name] == q {
		delete(s.queues, *q.name)
		for i := range q.lists {
			q.lists[i] = recycle(q.lists[i])
		}
		s.spare = q // when few runs are due at a time, a queue is made and forgotten with each
	}
}

// AppendWaiting appends the queues with due runs in memory, in the order in which runs first waited in them.
func (w *Window) AppendWaiting(out []delivery.Waiting, now int64) []delivery.Waiting {
	kept, short := w.due.queues.active[:0], w.short(now)
	for _, q := range w.due.queues.active {
		rank := q.next(now)
		if rank < 0 {
			q.listed = false
			w.due.queues.forgetEmpty(q)
			continue
		}
		kept = append(kept, q)
		out = append(out, delivery.Waiting{Queue: *q.name, N: q.len(), Now: w.nowOf(q, short, now),
			Head: q.head(rank)})
	}
	clear(w.due.queues.active[len(kept):])
	w.due.queues.active = kept
	return out
}

// Oldest returns when the first due run that waits in the queue, in memory, was due; 0 if none waits.
func (s *Queues) Oldest(name delivery.Queue) (due int64) {
	q := s.queues[name]
	if q == nil {
		return 0
	}
	for rank := range q.lists {
		if l := q.lists[rank]; len(l) > 0 && (due == 0 || l[0].state.Run.Due < due) {
			due = l[0].state.Run.Due
		}
	}
	return due
}

// rest describes what waits in a queue now, beside unused slots.
func (s *Queues) rest(name delivery.Queue, unused int, now int64) delivery.Rest {
	r := delivery.Rest{Queue: name, Unused: unused}
	if q := s.queues[name]; q != nil {
		if rank := q.next(now); rank >= 0 {
			r.N, r.Head = q.len(), q.head(rank)
		}
	}
	return r
}

// Before orders the due runs of one priority by due time, then ref.
func (e *entry) Before(o *entry) bool {
	if e.state.Run.Due != o.state.Run.Due {
		return e.state.Run.Due < o.state.Run.Due
	}
	return e.ref.Compare(o.ref) < 0
}

// At is e's index in its list.
func (e *entry) At() *int32 { return &e.slot }

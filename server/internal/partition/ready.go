package partition

import (
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/heaps"
)

// priorities is the number of priorities; 0 is the highest.
const priorities = 4

// critical is the highest priority.
const critical = 0

// ageStep is how long a due run must wait to be treated like a newly due run of the next higher priority.
// Aging keeps low priorities from starving.
const ageStep = 30 * time.Second

// Queues are the queues in which due runs wait, in memory or in the store.
type Queues struct {
	out    *builder
	queues map[delivery.Queue]*queue
	active []*queue // those in which due runs wait
	spare  *queue   // a forgotten queue, reused for the next new one

	only, away bool // only critical runs leave, and say that the store is away; see [Machine.OnlyCritical]
	// What became due from since on, before before, is overdue; see [Queues.CatchUp].
	since, before int64

	recording []uint64 // batches, not durable yet, that change which queues are named as parked; ascending
	recorded  uint64   // the last durable one
}

// queue holds the due runs in memory for one target address.
type queue struct {
	// allocated again for each use of this memory: attempts in force still point to the old one
	name    *delivery.Queue
	lists   [priorities]heaps.Of[*entry]
	overdue [priorities]heaps.Of[*entry] // of a catch-up; they are not in lists
	listed  bool                         // in Queues.active
	parked  parked
}

// len returns how many runs wait.
func (q *queue) len() int {
	n := 0
	for rank := range priorities {
		n += q.of(rank)
	}
	return n
}

// of returns how many runs of a priority wait.
func (q *queue) of(rank int) int { return len(q.lists[rank]) + len(q.overdue[rank]) }

// listOf returns the list in which e waits, or is to.
func (q *queue) listOf(e *entry) *heaps.Of[*entry] {
	if e.overdue {
		return &q.overdue[e.state.Priority]
	}
	return &q.lists[e.state.Priority]
}

// first returns the run of a priority that goes first, of those that are not overdue and, if with is set,
// those that are; nil if there is none.
func (q *queue) first(rank int, with bool) (e *entry) {
	if l := q.lists[rank]; len(l) > 0 {
		e = l[0]
	}
	if l := q.overdue[rank]; with && len(l) > 0 && (e == nil || l[0].Before(e)) {
		e = l[0]
	}
	return e
}

// next returns the run that goes next, nil if none may leave. It is the first one of the highest priority,
// unless that of a lower one has aged past it. In a catch-up nothing goes before critical runs; of what is
// overdue only the highest priority leaves, within bound, which is nil if there is none.
func (s *Queues) next(q *queue, now int64, bound *Bound) (best *entry) {
	bestScore, mayCatchUp := int64(0), true
	for rank := range priorities {
		if s.only && rank != critical {
			break
		}
		within := bound == nil || rank == critical || bound.N > 0 && rank <= int(bound.Rank)
		e := q.first(rank, mayCatchUp && within)
		mayCatchUp = mayCatchUp && (bound == nil || len(q.overdue[rank]) == 0)
		if e == nil {
			continue
		}
		if rank == critical && s.before != 0 {
			return e
		}
		score := int64(rank) - (now-e.readyAt)/int64(ageStep)
		if best == nil || score < bestScore {
			best, bestScore = e, score
		}
	}
	return best
}

// head describes a run that goes first.
func (e *entry) head() delivery.Head {
	return delivery.Head{Priority: e.state.Priority, Due: e.state.Run.Due}
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
			q.lists[i], q.overdue[i] = recycle(q.lists[i]), recycle(q.overdue[i])
		}
		s.spare = q // when few runs are due at a time, a queue is made and forgotten with each
	}
}

// AppendWaiting appends the queues with due runs in memory, in the order in which runs first waited in them.
func (w *Window) AppendWaiting(out []delivery.Waiting, now int64) []delivery.Waiting {
	kept, short := w.due.queues.active[:0], w.short(now)
	for _, q := range w.due.queues.active {
		first, only := w.due.queues.next(q, now, nil), w.due.queues.only
		if first == nil && only && q.len() > 0 {
			kept = append(kept, q)
			continue
		}
		if first == nil {
			q.listed = false
			w.due.queues.forgetEmpty(q)
			continue
		}
		kept = append(kept, q)
		waits := delivery.Waiting{Queue: *q.name, N: q.len(), Now: w.nowOf(q, short, now),
			Head: first.head(), Alike: q.of(int(first.state.Priority)), Overdue: q.describeOverdue()}
		if only {
			waits.N, waits.Now = waits.Alike, waits.Alike
		}
		out = append(out, waits)
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
	for rank := range priorities {
		if e := q.first(rank, true); e != nil && (due == 0 || e.state.Run.Due < due) {
			due = e.state.Run.Due
		}
	}
	return due
}

// rest describes what waits in a queue now, beside unused slots.
func (s *Queues) rest(name delivery.Queue, unused int, now int64) delivery.Rest {
	r := delivery.Rest{Queue: name, Unused: unused}
	if q := s.queues[name]; q != nil {
		if e := s.next(q, now, nil); e != nil {
			r.N, r.Head = q.len(), e.head()
			if s.only {
				r.N = q.of(critical)
			}
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

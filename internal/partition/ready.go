package partition

import (
	"container/heap"
	"time"
)

// priorities is the number of priorities; 0 is the highest.
const priorities = 4

// ageStep is how long a due run must wait to be treated like a newly due run of the next higher priority.
// Aging keeps low priorities from starving.
const ageStep = 30 * time.Second

// queue holds the due runs in memory for one target address.
type queue struct {
	name   *Queue // allocated again for each use of this memory: attempts in force still point to the old one
	lists  [priorities]readyList
	listed bool // in Machine.active
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

// enqueue puts a due run into its queue's list, or blocks it if something must be durable or read first.
func (m *Machine) enqueue(e *entry, now int64) {
	if m.awaitsCommit(e) || !m.complete(e) || e.changing(m.out.durable) {
		m.block(e)
		return
	}
	m.examine(e, now)
	q := m.queue(QueueOf(e.ref.Namespace, m.jobOf(e).Target))
	e.queue = q.name
	e.place, e.readyAt = ready, now
	heap.Push(&q.lists[e.state.Priority], e)
	if !q.listed {
		q.listed = true
		m.active = append(m.active, q)
	}
	m.rearm(e)
}

// dequeue removes e from its queue's list or its line.
func (m *Machine) dequeue(e *entry) {
	if e.place == aside {
		heap.Remove(&e.line.list, int(e.slot))
	} else {
		heap.Remove(&m.queue(*e.queue).lists[e.state.Priority], int(e.slot))
	}
	left := e.place
	e.place = idle
	if e.line != nil {
		m.leaveLine(e, left)
	}
}

// block sets e aside until a batch is durable or a record has been read.
func (m *Machine) block(e *entry) {
	if e.place != running {
		e.place = blocked
	}
	m.setWake(e, 0)
	m.blocked = append(m.blocked, e)
}

// queue finds or makes the queue.
func (m *Machine) queue(q Queue) *queue {
	st := m.queues[q]
	if st == nil {
		if st = m.spare; st == nil {
			st = &queue{}
		}
		m.spare = nil
		st.name, st.parked = new(q), parked{none: true}
		m.queues[q] = st
	}
	return st
}

// Remembers reports whether runs wait in the queue, in memory or in the store.
func (m *Machine) Remembers(q Queue) bool { return m.queues[q] != nil }

// leaveQueue forgets a queue in which nothing is left.
func (m *Machine) leaveQueue(q *queue) {
	if p := &q.parked; !q.listed && p.none && !p.recorded && p.recalled == 0 && m.queues[*q.name] == q {
		delete(m.queues, *q.name)
		for i := range q.lists {
			q.lists[i] = recycle(q.lists[i])
		}
		m.spare = q // when few runs are due at a time, a queue is made and forgotten with each
	}
}

// Waiting describes one queue in which due runs wait.
type Waiting struct {
	Queue Queue
	N     int
	Now   int // how many may be handed out before the machine has read more of the backlog; see nowOf
	Head  Head
}

// AppendWaiting appends the queues in which due runs wait, in the order in which runs first waited in them.
func (m *Machine) AppendWaiting(out []Waiting, now int64) []Waiting {
	kept, short := m.active[:0], m.short(now)
	for _, q := range m.active {
		rank := q.next(now)
		if rank < 0 {
			q.listed = false
			m.leaveQueue(q)
			continue
		}
		kept = append(kept, q)
		head := Head{Priority: uint8(rank), Due: q.lists[rank][0].state.Run.Due}
		out = append(out, Waiting{Queue: *q.name, N: q.len(), Now: m.nowOf(q, short, now), Head: head})
	}
	clear(m.active[len(kept):])
	m.active = kept
	return out
}

// Oldest returns when the first due run that waits in the queue, in memory, was due; 0 if none waits.
func (m *Machine) Oldest(name Queue) (due int64) {
	q := m.queues[name]
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

// Head returns the run that goes next in a queue; the zero head if none waits.
func (m *Machine) Head(name Queue, now int64) Head {
	q := m.queues[name]
	if q == nil {
		return Head{}
	}
	rank := q.next(now)
	if rank < 0 {
		return Head{}
	}
	return Head{Priority: uint8(rank), Due: q.lists[rank][0].state.Run.Due}
}

// readyList is a heap of the due runs of one priority, ordered by due time, then ref.
type readyList []*entry

func (l readyList) Len() int { return len(l) }
func (l readyList) Less(i, j int) bool {
	if l[i].state.Run.Due != l[j].state.Run.Due {
		return l[i].state.Run.Due < l[j].state.Run.Due
	}
	return l[i].ref.Compare(l[j].ref) < 0
}
func (l readyList) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].slot, l[j].slot = int32(i), int32(j)
}

// Push implements container/heap.
func (l *readyList) Push(x any) {
	e := x.(*entry)
	e.slot = int32(len(*l))
	*l = append(*l, e)
}

// Pop implements container/heap.
func (l *readyList) Pop() any {
	old := *l
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*l = old[:len(old)-1]
	return e
}

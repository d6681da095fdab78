package partition

import "github.com/carillonhq/carillon/server/internal/delivery"

// Bound is how many overdue runs Deliver hands out of a queue in a catch-up, beside critical ones, which are
// not bounded. The zero value is none.
type Bound struct {
	Rank uint8 // only those of this priority, and of higher ones
	N    int   // what is left; Deliver lowers it
}

// charge counts a run that leaves.
func (b *Bound) charge(e *entry) {
	if b != nil && e.overdue && e.state.Priority != critical {
		b.N--
	}
}

// CatchUp says that what became due from since on and before an instant is overdue, UTC ns: the store was
// away. Both are zero if there is no catch-up. Overdue runs wait apart from the others, so that those leave
// as ever while few overdue ones may; and critical runs go before all others, whose ages do not matter to
// them.
func (s *Queues) CatchUp(since, before int64) {
	if s.since == since && s.before == before {
		return
	}
	s.since, s.before = since, before
	var all []*entry
	for _, q := range s.active {
		all = all[:0]
		for rank := range priorities {
			all = append(append(all, q.lists[rank]...), q.overdue[rank]...)
		}
		for _, e := range all {
			q.listOf(e).Remove(e)
			s.add(q, e)
		}
	}
}

// add puts e into the list of its priority.
func (s *Queues) add(q *queue, e *entry) {
	e.overdue = s.since <= e.state.Run.Due && e.state.Run.Due < s.before
	q.listOf(e).Add(e)
}

// describeOverdue returns the overdue runs that wait in the queue.
func (q *queue) describeOverdue() (o delivery.Overdue) {
	for rank := range q.overdue {
		l := q.overdue[rank]
		if o.N == 0 && len(l) > 0 {
			o.Head, o.Alike = l[0].head(), len(l)
		}
		o.N += len(l)
	}
	return o
}

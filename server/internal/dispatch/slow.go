package dispatch

import (
	"cmp"
	"math"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// SlowStart bounds what is in flight after a start with a backlog, so that the targets of a node that was
// down do not get everything overdue at once. The bound is Initial at first and doubles after every Step. It
// is lifted when it reaches Most, or when no partition has an overdue run to dispatch any more. A node
// without a backlog has no bound.
//
// Half of the bound is for the most critical and most overdue runs. Of the other half each queue with runs to
// dispatch has an equal share, which the others leave to it, whatever theirs are: so a target that answers
// nothing holds up no other one.
type SlowStart struct {
	Initial int
	Step    time.Duration // 0: never bounded
	Most    int           // the bound is lifted when it reaches this; default 10,000
	Overdue time.Duration // runs due this long before the start are a backlog; default 5 s
}

// Defaults of a slow start.
const (
	DefaultSlowMost    = 10_000
	DefaultSlowOverdue = 5 * time.Second
)

// slow is the state of a slow start. The hub's lock guards it.
type slow struct {
	SlowStart
	started       time.Time // by the monotonic clock
	overdueBefore int64     // runs due before this are overdue, in Unix nanoseconds of the wall clock
	active        bool      // a backlog was seen and the bound is in force
	backlogSeen   bool      // a backlog was seen since the last step
	over          bool
	timer         *time.Timer // runs while active
}

func newSlow(o SlowStart, now time.Time) slow {
	o.Most = cmp.Or(o.Most, DefaultSlowMost)
	o.Overdue = cmp.Or(o.Overdue, DefaultSlowOverdue)
	o.Initial = max(1, o.Initial)
	return slow{SlowStart: o, started: time.Now(), overdueBefore: now.Add(-o.Overdue).UnixNano(),
		over: o.Step <= 0}
}

// bound returns how many deliveries may be in flight now.
func (s *slow) bound() int {
	bound := s.Initial
	for steps := time.Since(s.started) / s.Step; steps > 0 && bound < s.Most; steps-- {
		bound *= 2
	}
	return bound
}

// overdue reports whether a partition wants slots for runs that were overdue at the start.
func (s *slow) overdue(w delivery.Waiting) bool { return w.Now > 0 && w.Head.Due < s.overdueBefore }

// noteHead checks the head that a partition wants slots for. The first overdue one puts the bound in force.
func (s *slow) noteHead(h *Hub, head delivery.Head) {
	if s.over || head.Due >= s.overdueBefore {
		return
	}
	s.backlogSeen = true
	if !s.active {
		s.active = true
		s.timer = time.AfterFunc(s.Step-time.Since(s.started)%s.Step, h.slowStep)
	}
}

// end lifts the bound for good.
func (s *slow) end() {
	s.active, s.over = false, true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// slowStep raises the bound, or lifts it.
func (h *Hub) slowStep() {
	var n notifications
	h.mu.Lock()
	if s := &h.slow; s.active {
		backlog := s.backlogSeen || h.overdueWaits()
		s.backlogSeen = false
		for _, q := range h.queues {
			q.sharing = max(0, q.sharing-1)
		}
		h.wakeAll(&n)
		if !backlog || s.bound() >= s.Most {
			s.end()
			h.settle(&n, h.sorted()...)
		} else {
			s.timer.Reset(s.Step)
		}
	}
	h.unlock(&n)
}

// overdueWaits reports whether a partition waits with a run that was overdue at the start.
func (h *Hub) overdueWaits() bool {
	for _, q := range h.queues {
		for _, c := range q.waiting {
			if c.head.Due < h.slow.overdueBefore {
				return true
			}
		}
	}
	return false
}

// nodeRoom returns how many more slots the node may give; below zero when the bound is exceeded.
func (h *Hub) nodeRoom() int {
	if !h.slow.active {
		return math.MaxInt
	}
	room := h.slow.bound()
	for _, q := range h.queues {
		room -= q.used()
	}
	return room
}

// used is how much of the bound the queue has.
func (q *queue) used() int { return q.taken + q.flight }

// sharingSteps is for how many steps a queue keeps its share that wants no slots: between two looks of a
// partition it does not wait, and what another queue gets then may never come back.
const sharingSteps = 2

// shares is what of a bound is left for which queue.
type shares struct {
	left  int // of the node
	share int // of each queue that shares
	kept  int // of left, for queues that have less than their share
}

// shares returns what is left now.
func (h *Hub) shares() shares {
	s := shares{left: h.nodeRoom()}
	if !h.slow.active || s.left <= 0 {
		return s
	}
	n := 0
	for _, q := range h.queues {
		if q.shares() {
			n++
		}
	}
	s.share = max(1, h.slow.bound()/(2*max(1, n)))
	for _, q := range h.queues {
		s.kept += s.keptFor(q)
	}
	return s
}

// keptFor returns what is kept for one queue.
func (s shares) keptFor(q *queue) int {
	if !q.shares() {
		return 0
	}
	return max(0, min(s.share-q.used(), q.free()))
}

// shares reports whether the queue has a share.
func (q *queue) shares() bool { return q.served() && (q.sharing > 0 || len(q.waiting) > 0) }

// of returns how many more slots a queue may get: up to its share, or what is not kept for others.
func (s shares) of(q *queue) int {
	return max(min(s.left, s.share-q.used()), s.left-s.kept+s.keptFor(q))
}

// wakeAll gives slots to waiting partitions of all queues, best head first, as far as the node and the
// queue's share have room.
func (h *Hub) wakeAll(n *notifications) {
	for {
		s := h.shares()
		q := h.firstToWake(s)
		if q == nil {
			return
		}
		q.sharing = sharingSteps
		q.wakeFirst(min(h.options.Chunk, max(0, s.of(q))), n)
	}
}

// firstToWake returns the queue with the best waiting head that can get slots, or that is not served any
// more, which its partitions must learn.
func (h *Hub) firstToWake(s shares) *queue {
	var best *queue
	for _, q := range h.queues {
		if len(q.waiting) == 0 || (q.served() && (s.of(q) <= 0 || q.free() <= 0)) {
			continue
		}
		if best == nil || q.before(best) {
			best = q
		}
	}
	return best
}

// before reports whether the best waiting head of q precedes that of o; ties are broken by name.
func (q *queue) before(o *queue) bool {
	return cmp.Or(q.waiting[0].head.Compare(o.waiting[0].head), q.name.Compare(o.name)) < 0
}

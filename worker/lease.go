package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
)

// A run may have waited for its worker, in the buffers of a process that was stopped or behind a connection
// that was cut. By then its lease may have ended and another worker may have done the run, which this worker
// cannot see: what it reads looks new. So each message carries a lower bound on when its runs were sent
// (carillon.WorkResponse.Since). While that leaves enough of the lease, the handler starts at once, which is
// the usual case. Otherwise the worker sends a heartbeat that asks whether the attempt is in force, and
// starts the handler when the owner of the run has confirmed it.

// lease is what is known of an attempt's lease.
type lease struct {
	length time.Duration
	since  time.Time // it was in force then; zero: not known, and not asked
	asking bool      // the handler waits for an answer
	asked  time.Time // when the oldest unanswered question was sent; zero: none
}

func newLease(length time.Duration, since time.Time) lease {
	return lease{length: cmp.Or(length, carillon.DefaultLease), since: since}
}

// inForce reports whether the lease is certainly in force, with a quarter of it to spare.
func (l *lease) inForce(now time.Time) bool {
	return l.since.IsZero() || now.Sub(l.since) < l.length-l.length/4
}

// ask records that a question is sent now. The next answer may be to the first of several.
func (l *lease) ask(now time.Time) {
	if l.asking && l.asked.IsZero() {
		l.asked = now
	}
}

// answered records that the attempt was in force when the question was sent.
func (l *lease) answered() { l.since, l.asking, l.asked = l.asked, false, time.Time{} }

// startOrAsk starts an attempt for which there is room, or asks whether it is still in force.
func (d *inFlight) startOrAsk(a *attempt) {
	now := time.Now()
	if a.lease.inForce(now) {
		d.start(a)
		return
	}
	a.lease.asking = true
	a.heartbeatAt, d.nextHeartbeat = now, now
	signal(d.wake)
}

// startWaiting starts attempts that have waited for room.
func (d *inFlight) startWaiting(q *queue) {
	for len(q.waiting) > 0 && d.canStart(q) {
		next := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		d.startOrAsk(next)
	}
}

// confirmed handles the answer that an attempt is in force.
func (d *inFlight) confirmed(token string) {
	a := d.attempts[token]
	if a == nil || !a.lease.asking || a.lease.asked.IsZero() {
		return
	}
	a.lease.answered()
	a.queue.waiting = append(a.queue.waiting, a)
	d.startWaiting(a.queue)
}

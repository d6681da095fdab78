package stream

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// Attempt is a run that the consumer has or is about to receive. The stream's lock guards it.
type Attempt struct {
	Token  string
	Nth    uint64        // in the order of delivery, from 1
	Number uint64        // in the order of receipt, from 1; 0: it was not received
	Known  bool          // the consumer knows the token: it received this delivery, or an earlier one
	Run    *carillon.Run // until it is received
	Detail any           // the session's own, until it is received

	subscription *dispatch.Subscription
	size         int
	void         bool // released before it was received
}

// late reports whether the lease ended before the attempt was received.
func (a *Attempt) late(now time.Time) bool {
	return a.Run.Lease > 0 && now.After(a.Run.Started.Add(a.Run.Lease))
}

// waiting is the queue of the attempts that were not received.
type waiting struct {
	queue []*Attempt // including released ones, until their turn comes
	void  int        // released ones in queue
	bytes int        // size of the others, about
}

// Overhead is the approximate size of a field in bytes without its text.
const Overhead = 16

// sizeOf returns the approximate size of a run in a message, in bytes.
func sizeOf(r *carillon.Run) int {
	n := 8*Overhead + len(r.ID) + len(r.Namespace) + len(r.Job) + len(r.Token) + len(r.Queue) +
		len(r.Data.Bytes) +
		len(r.Data.ContentType)
	for k, v := range r.Metadata {
		n += Overhead + len(k) + len(v)
	}
	return n
}

// len returns how many attempts wait.
func (w *waiting) len() int { return len(w.queue) - w.void }

func (w *waiting) add(a *Attempt) {
	w.queue = append(w.queue, a)
	w.bytes += a.size
}

// drop removes an attempt. Its place stays until its turn comes, or until half of the queue is such places.
func (w *waiting) drop(a *Attempt) {
	a.void = true
	a.Run, a.Detail = nil, nil
	w.bytes -= a.size
	if w.void++; 2*w.void < len(w.queue) {
		return
	}
	left := make([]*Attempt, 0, w.len())
	for _, o := range w.queue {
		if !o.void {
			left = append(left, o)
		}
	}
	w.queue, w.void = left, 0
}

// first returns the attempt that has waited longest; nil: none waits.
func (w *waiting) first() *Attempt {
	for len(w.queue) > 0 && w.queue[0].void {
		w.void--
		w.shift()
	}
	if len(w.queue) == 0 {
		return nil
	}
	return w.queue[0]
}

// pop removes the attempt that first returned, which is received now.
func (w *waiting) pop() {
	w.bytes -= w.queue[0].size
	w.shift()
}

func (w *waiting) shift() {
	w.queue[0] = nil
	if w.queue = w.queue[1:]; len(w.queue) == 0 {
		w.queue = nil
	}
}

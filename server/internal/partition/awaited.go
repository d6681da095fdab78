package partition

import "github.com/carillonhq/carillon/server/internal/delivery"

// awaiting counts the attempts in force that a consumer at a broker completes, by queue, from when they
// leave: until then each has a slot of the hub. Each is in memory until it ends, which may take hours; the
// hub bounds how many there are.
type awaiting struct {
	n       map[delivery.Queue]int
	changed map[delivery.Queue]struct{} // since they were told
}

func newAwaiting() awaiting {
	return awaiting{n: map[delivery.Queue]int{}, changed: map[delivery.Queue]struct{}{}}
}

// count counts e's attempt, if its queue is known and a consumer completes it.
func (w *awaiting) count(e *entry) {
	if e.queue != nil && !e.attempt.counted && e.specOf() != nil && e.job().Target.AwaitsCompletion() {
		w.add(e)
	}
}

// add counts e's attempt.
func (w *awaiting) add(e *entry) {
	e.attempt.counted = true
	w.n[*e.queue]++
	w.changed[*e.queue] = struct{}{}
}

// uncount is the end of count: of the attempt, or of its queue.
func (w *awaiting) uncount(e *entry) {
	if !e.attempt.counted {
		return
	}
	e.attempt.counted = false
	if w.n[*e.queue]--; w.n[*e.queue] == 0 {
		delete(w.n, *e.queue)
	}
	w.changed[*e.queue] = struct{}{}
}

// AppendAwaited appends how many attempts that have left a consumer at a broker completes, of the queues in
// which that has changed since the last call.
func (a *Attempts) AppendAwaited(out []delivery.Awaited) []delivery.Awaited {
	for q := range a.awaiting.changed {
		out = append(out, delivery.Awaited{Queue: q, N: a.awaiting.n[q]})
	}
	clear(a.awaiting.changed)
	return out
}

package engine

import "slices"

// replies are the callers of one partition that wait for its batches, in the order of these. They belong to
// the lane's goroutine and to one term.
type replies struct {
	sent    uint64 // number of the newest batch sent to the store
	durable uint64 // number of the newest durable batch
	waiting []answer
}

// answer is a function to call once a batch is durable or has failed.
type answer struct {
	seq    uint64
	answer func(err error)
	final  bool // it waits for the outcome of a batch in flight even if the term ends meanwhile
}

// await calls f once batch seq is durable. If the term ends first, f is called at once with an error.
func (r *replies) await(seq uint64, f func(err error)) { r.add(answer{seq: seq, answer: f}) }

func (r *replies) add(a answer) {
	if a.seq <= r.durable {
		a.answer(nil)
		return
	}
	r.waiting = append(r.waiting, a)
}

// committed answers those who wait for batch seq or an earlier one: it is durable.
func (r *replies) committed(seq uint64) {
	r.durable = seq
	n := 0
	for n < len(r.waiting) && r.waiting[n].seq <= seq {
		r.waiting[n].answer(nil)
		n++
	}
	r.waiting = slices.Delete(r.waiting, 0, n) // so that what the answers hold can be freed
}

// notApplied records that the batch sent last was certainly not applied.
func (r *replies) notApplied() { r.sent = r.durable }

// refuse answers all with err.
func (r *replies) refuse(err error) {
	for _, w := range r.waiting {
		w.answer(err)
	}
	r.waiting = nil
}

// lose answers all when the term is lost: batches that were not sent are not applied, of the others it is
// unknown. Who can wait is handed to the batch in flight, if there is one; now is by Engine.elapsed.
func (r *replies) lose(cause error, flight *commit, now int64) {
	for _, w := range r.waiting {
		switch {
		case w.seq > r.sent:
			w.answer(unavailable(cause))
		case w.final && flight != nil:
			flight.waiting, flight.since = append(flight.waiting, w), now
		default:
			w.answer(leftOpen(cause))
		}
	}
	r.waiting = nil
}

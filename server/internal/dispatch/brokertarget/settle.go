package brokertarget

import (
	"cmp"
	"time"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// settleLater has the outcome of a flight told. Outcomes that come meanwhile are told together: so the slots
// are free together, and the next runs come as one batch.
func (q *queue) settleLater(f *flight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = append(q.ended, f)
	if q.silent(f) {
		q.doubt = silence(timeoutOf(&f.delivery))
	}
	if !q.settling {
		q.settling = true
		q.transport.work.Go(q.settle)
	}
}

// settle tells outcomes until there are no more.
func (q *queue) settle() {
	for {
		q.mu.Lock()
		fs := q.ended
		q.ended = nil
		if len(fs) == 0 {
			q.settling = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		q.tell(fs)
	}
}

// tell reports what became of flights, and frees their slots.
func (q *queue) tell(fs []*flight) {
	var reports []delivery.Report
	var unsent []string
	taken, why := false, ""
	for _, f := range fs {
		o, run := &f.outcome, f.delivery.Run
		taken = taken || o.taken
		switch {
		case o.unsent != "":
			if !o.ours {
				why = o.unsent
			}
			if !o.cancelled {
				unsent = append(unsent, run.Token)
			}
		case o.report != nil && !o.cancelled:
			r := *o.report
			r.Token, r.RunID, r.Worker = run.Token, run.ID, f.delivery.Queue.Address
			reports = append(reports, r)
		}
	}
	now := time.Now()
	why = cmp.Or(why, q.silence(fs, taken, now))
	if why != "" {
		q.slowDown(why, now, taken)
		q.subscription.Hold(q.held) // before the runs are due again
	} else if taken {
		q.speedUp()
	}
	sink := q.subscription.Sink()
	if len(reports) > 0 {
		sink.Reports(reports)
	}
	if len(unsent) > 0 {
		sink.Undelivered(unsent)
	}
	q.subscription.Done(len(fs), q.land(fs))
	q.transport.flights.Land(fs...)
}

// land ends flights, and returns how many credits the queue gets.
func (q *queue) land(fs []*flight) (credits int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ended) == 0 {
		q.doubt = ""
	}
	return q.room.land(fs)
}

// silence says why the next runs should wait: the time of one of the flights was over, and the broker has
// acknowledged nothing at all since that left. "": there is no reason. taken: it has acknowledged one of
// these.
func (q *queue) silence(fs []*flight, taken bool, now time.Time) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if taken {
		q.acked = now
		return ""
	}
	for _, f := range fs {
		if q.silent(f) {
			return silence(timeoutOf(&f.delivery))
		}
	}
	return ""
}

// silent reports whether a flight shows that the broker takes messages and acknowledges none. It may have the
// flight's, so that attempt has failed; but those that wait would fail in the same way. What left before the
// broker was found away says nothing of it after that, and a broker may well take longer than some jobs have.
// q.mu is held.
func (q *queue) silent(f *flight) bool {
	late := f.outcome.late && timeoutOf(&f.delivery) >= leastSilence
	return late && !q.acked.After(f.began) && !q.room.before(f)
}

// leastSilence is how long a broker must have acknowledged nothing for that to mean something.
const leastSilence = time.Second

// slowDown begins or extends the pause, once for all runs that were under way together. After it, one run
// tries whether the broker is there; or all go on, if the broker has taken some of them.
func (q *queue) slowDown(why string, now time.Time, taken bool) {
	gone := q.beginPause(why, now, taken)
	if t := q.transport; gone { // not under the lock: a log that is stuck must not hold up the hub
		t.options.Log.Warn("a broker gets nothing at present: runs wait", "kind", t.kind, "broker", q.broker,
			"queue", q.subscription.Queue().Address, "reason", why)
	}
}

// beginPause is slowDown; gone: it is the first pause.
func (q *queue) beginPause(why string, now time.Time, taken bool) (gone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Before(q.until) {
		return false
	}
	pause := firstPause
	if !taken {
		q.pause = min(max(firstPause, 2*q.pause), lastPause)
		pause = q.pause
		gone = q.room.shut()
	}
	q.why = why
	q.until = now.Add(pause)
	if q.resumer == nil {
		q.resumer = time.AfterFunc(pause, func() { q.resume(false) })
	} else {
		q.resumer.Reset(pause)
	}
	q.transport.pausing(q, true)
	return gone
}

// speedUp gives the queue all its room, since the broker has taken a message.
func (q *queue) speedUp() {
	t := q.transport
	limit := t.set.inFlight(t.kind, q.broker)
	q.mu.Lock()
	q.pause = 0
	back := q.room.open(limit)
	q.mu.Unlock()
	if back { // not under the lock: a log that is stuck must not hold up the hub
		t.options.Log.Info("a broker is back", "kind", t.kind, "broker", q.broker,
			"queue", q.subscription.Queue().Address)
	}
}

// resume ends the pause: at its end, or at once.
func (q *queue) resume(now bool) {
	q.mu.Lock()
	if !now && time.Now().Before(q.until) { // another one has begun
		q.mu.Unlock()
		return
	}
	q.until = time.Time{}
	q.resumer.Stop()
	q.transport.pausing(q, false)
	q.mu.Unlock()
	q.subscription.Hold(q.held)
}

// close ends the timer of a queue that pauses.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.resumer.Stop()
}

// held reports whether deliveries still pause.
func (q *queue) held() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Now().Before(q.until)
}

// PausedUntil implements [dispatch.Pausing].
func (q *queue) PausedUntil() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.until
}

// PausedFor implements [dispatch.Explaining].
func (q *queue) PausedFor() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.why
}

// TriesFor implements [dispatch.Trying].
func (q *queue) TriesFor() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.room.away {
		return ""
	}
	return q.why
}

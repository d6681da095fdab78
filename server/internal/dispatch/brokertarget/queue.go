package brokertarget

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// queue is the consumer of one queue: a topic, exchange, subject or stream of a namespace.
type queue struct {
	transport    *Transport
	subscription *dispatch.Subscription
	broker       string // its name

	mu       sync.Mutex
	room     room
	acked    time.Time // when the broker last acknowledged a message; zero: never
	inline   lane
	stored   lane      // whose payloads must be read first: nothing else waits for that
	ended    []*flight // whose outcome has not been told yet
	settling bool      // a goroutine does it
	pause    time.Duration
	until    time.Time // deliveries pause until then
	doubt    string    // why a pause may be about to begin: nothing is sent until that is known
	why      string
	resumer  *time.Timer
}

// lane is what waits to be given to the client, in order.
type lane struct {
	waiting [][]*flight // batches, of one deadline each
	sending bool        // a goroutine does it
}

// add adds flights, those of one deadline together.
func (l *lane) add(fs []*flight) {
	for len(fs) > 0 {
		n := 1
		for n < len(fs) && fs[n].deadline.Equal(fs[0].deadline) {
			n++
		}
		l.waiting = append(l.waiting, fs[:n])
		fs = fs[n:]
	}
}

// Deliver implements [dispatch.Consumer].
func (q *queue) Deliver(ds []delivery.Delivery) bool {
	now := time.Now()
	fs := make([]*flight, len(ds))
	for i := range ds {
		fs[i] = &flight{queue: q, delivery: ds[i], began: now, deadline: now.Add(timeoutOf(&ds[i]))}
	}
	q.mu.Lock()
	q.room.leave(fs) // before they can end; who leaves gets no more, so that nothing need be taken back
	q.mu.Unlock()
	if !q.transport.flights.Start(fs) {
		return false
	}
	var inline, stored []*flight
	for _, f := range fs {
		if f.delivery.Run.Data.Ref == nil {
			inline = append(inline, f)
		} else {
			stored = append(stored, f)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inline.add(inline)
	q.stored.add(stored)
	for _, l := range []*lane{&q.inline, &q.stored} {
		if !l.sending && len(l.waiting) > 0 {
			l.sending = true
			q.transport.work.Go(func() { q.send(l) })
		}
	}
	return true
}

// timeoutOf returns how long the broker may take to acknowledge a delivery. The timeout of one that a
// consumer completes is that of the consumer, and may be hours.
func timeoutOf(d *delivery.Delivery) time.Duration {
	timeout := cmp.Or(d.Timeout, DefaultTimeout)
	if d.Target.AwaitsCompletion() {
		timeout = min(timeout, DefaultTimeout)
	}
	return timeout
}

// Cancel implements [dispatch.Consumer]. What the client has can no longer be taken back, and keeps its slot
// until its outcome is known.
func (q *queue) Cancel(token string) {
	if f := q.transport.flights.Find(token); f != nil {
		f.cancel()
	}
}

// MostAwaited implements [dispatch.Bounded].
func (q *queue) MostAwaited() int { return q.transport.set.mostAwaited(q.transport.kind, q.broker) }

// send gives the client what waits in a lane, in order, until nothing does.
func (q *queue) send(l *lane) {
	for {
		q.mu.Lock()
		if len(l.waiting) == 0 {
			l.sending = false
			q.mu.Unlock()
			return
		}
		fs := l.waiting[0]
		l.waiting = l.waiting[1:]
		why := ""
		if time.Now().Before(q.until) {
			why = q.why
		}
		doubted := why == "" && q.doubt != ""
		if doubted {
			why = q.doubt
		}
		q.mu.Unlock()
		if why != "" {
			for _, f := range fs {
				f.finish(outcome{unsent: why, ours: doubted})
			}
			continue
		}
		q.sendBatch(fs)
	}
}

// sendBatch gives one batch to the client, in parts if its payloads do not fit into memory together.
func (q *queue) sendBatch(fs []*flight) {
	t := q.transport
	e, why := t.set.acquire(t.kind, q.broker)
	if e == nil {
		for _, f := range fs {
			f.finish(outcome{unsent: why})
		}
		return
	}
	defer e.release()
	timeout := timeoutOf(&fs[0].delivery)
	within := min(timeout/2, readWithin) // the others of the lane wait for it
	reads, cancel := context.WithTimeout(t.stop, min(within, time.Until(fs[0].deadline.Add(-timeout/2))))
	defer cancel()
	var part []*flight
	var data [][]byte
	for _, f := range fs {
		ref := f.delivery.Run.Data.Ref
		if ref == nil {
			part, data = append(part, f), append(data, f.delivery.Run.Data.Bytes)
			continue
		}
		if ref.Size > MaxStoredPayload {
			f.finish(outcome{report: &delivery.Report{Result: carillon.Result{Permanent: true,
				Message: tooLarge(ref.Size)}}})
			continue
		}
		if ok, _ := e.payloads.try(ref.Size); !ok {
			q.publish(e, part, data)
			part, data = nil, nil
			if err := e.payloads.take(reads, ref.Size); err != nil {
				r := t.unread(reads, errors.New("too many payloads are on their way to this broker"))
				f.finish(outcome{report: &r})
				continue
			}
		}
		f.hold(e.payloads, ref.Size)
		b, err := t.read(reads, f.delivery.Run)
		if err != nil {
			r := t.unread(reads, err)
			f.finish(outcome{report: &r})
			continue
		}
		part, data = append(part, f), append(data, b)
	}
	q.publish(e, part, data)
}

// publish gives messages to the client of the broker, which is used until all of them have ended.
func (q *queue) publish(e *entry, fs []*flight, data [][]byte) {
	t := q.transport
	ms := make([]broker.Message, 0, len(fs))
	given := make([]*flight, 0, len(fs))
	now := time.Now()
	for i, f := range fs {
		if !now.Before(f.deadline) {
			f.finishUngiven(outcome{unsent: "its time was over before it could be sent", ours: true})
			continue
		}
		if f.give() {
			ms, given = append(ms, newMessage(&f.delivery, data[i])), append(given, f)
		}
	}
	if len(ms) == 0 {
		return
	}
	e.retain()
	deadline := given[0].deadline
	ctx, cancel := context.WithDeadline(t.stop, deadline)
	timer := time.AfterFunc(time.Until(deadline)+overdue, func() {
		for _, f := range given {
			f.finish(q.judge(f, context.DeadlineExceeded))
		}
	})
	end := func() {
		timer.Stop()
		cancel()
		e.release()
	}
	var left atomic.Int64
	left.Store(int64(len(given)))
	for _, f := range given {
		f.whenOver(func() {
			if left.Add(-1) == 0 {
				end()
			}
		})
	}
	e.client.Publish(ctx, ms, func(i int, err error) { given[i].finish(q.judge(given[i], err)) })
}

// judge says what the client's answer means.
func (q *queue) judge(f *flight, err error) (o outcome) {
	r := delivery.Report{Async: f.delivery.Target.AwaitsCompletion()}
	switch {
	case err == nil:
		r.Outcome = carillon.OutcomeSuccess
		o.taken = true
	case errors.Is(err, broker.ErrUnsent):
		return outcome{unsent: err.Error()}
	case errors.Is(err, broker.ErrRefused):
		r.Async, r.Permanent, r.Message = false, true, clipped(err.Error())
	case q.transport.stop.Err() != nil:
		r.Message = errStopped.Error()
	case errors.Is(err, context.DeadlineExceeded) || !time.Now().Before(f.deadline):
		o.late = true
		r.Message = late(timeoutOf(&f.delivery))
	default:
		r.Message = clipped(err.Error()) + ": the broker may have it"
	}
	o.report = &r
	return o
}

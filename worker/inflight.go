package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// queue is one queue and its handler. What follows limit is guarded by the desk's lock.
type queue struct {
	name   string
	handle handler
	limit  int // runs at once

	granted int        // credits that the current session has and has not used
	held    int        // runs that take room: those that wait, go on, or were dropped and have not returned yet
	running int        // handlers that have not returned
	waiting []*attempt // beyond the limit: they came through an older session's credits
}

// attempt is one attempt of a run. The desk's lock guards it.
type attempt struct {
	run           carillon.Run
	queue         *queue
	deadline      time.Time // by this machine's clock; zero = none
	heartbeatEach time.Duration
	heartbeatAt   time.Time // when to heartbeat, or to send the result again
	lease         lease

	stop    context.CancelCauseFunc // nil before it is started
	dropped bool                    // cancelled or stale: nothing is reported
	ended   bool                    // result is there
	result  carillon.Result
	listed  bool // in desk.results

	progress *carillon.Progress // to be said; nil = nothing. Otherwise the attempt is in desk.telling
	tellAt   time.Time          // not before
}

// inFlight is what the worker has on its hands: attempts that wait, go on, or have ended without the server having said that
// their result is durable. Its methods may be called from any goroutine.
type inFlight struct {
	log     *slog.Logger
	base    context.Context // of all handlers
	bell    chan struct{}   // holds one when there may be something to say
	drained chan struct{}   // while leaving: holds one when there may be less to wait for

	mu            sync.Mutex
	queues        []*queue
	byName        map[string]*queue
	attempts      map[string]*attempt // by token
	results       []*attempt          // to be sent
	telling       []*attempt          // whose progress is to be sent
	nextHeartbeat time.Time           // the least beatAt, or earlier; zero = nobody heartbeats
	link          *link               // the current session; nil = none
	pinged        bool                // the server waits for a sign of life
	leaving       bool                // no more credits
	closed        bool                // what comes now is not ours any more
}

func newInFlight(base context.Context, log *slog.Logger, queues []*queue) *inFlight {
	d := &inFlight{
		log: log, base: base, bell: make(chan struct{}, 1), drained: make(chan struct{}, 1),
		queues: queues, byName: map[string]*queue{}, attempts: map[string]*attempt{},
	}
	for _, q := range queues {
		d.byName[q.name] = q
	}
	return d
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// attach makes l the current session: it learns at once of every attempt, and no credit is outstanding.
func (d *inFlight) attach(l *link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.link = l
	for _, q := range d.queues {
		q.granted = 0
	}
	for _, a := range d.attempts {
		a.heartbeatAt = time.Time{}
	}
	d.pinged = false
	d.nextHeartbeat = time.Now()
	ring(d.bell)
}

// take is what a session brought.
func (d *inFlight) take(l *link, msg *carillon.WorkResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, token := range msg.Acks {
		if a := d.attempts[token]; a != nil && a.ended {
			d.remove(a)
		}
	}
	for _, token := range msg.Stale {
		d.drop(token, ErrStale)
	}
	for _, token := range msg.Cancel {
		d.drop(token, ErrCancelled)
	}
	for _, token := range msg.Confirmed {
		d.confirmed(token)
	}
	d.pinged = d.pinged || msg.Ping
	if d.closed {
		return
	}
	for i := range msg.Runs {
		d.add(l, &msg.Runs[i], msg.Since)
	}
	ring(d.bell)
}

// add takes an attempt that was sent after since; one that is here already is not started twice.
func (d *inFlight) add(l *link, run *carillon.Run, since time.Time) {
	q := d.byName[run.Queue]
	if q == nil {
		d.log.Error("a run came through a queue that was not asked for", "queue", run.Queue, "run", run.ID)
		return
	}
	if l == d.link {
		q.granted--
	}
	if a := d.attempts[run.Token]; a != nil {
		d.list(a)
		return
	}
	now := time.Now()
	a := &attempt{run: *run, queue: q, heartbeatEach: heartbeatInterval(run.Lease), lease: newLease(run.Lease, since)}
	a.heartbeatAt = now.Add(a.heartbeatEach)
	if limit := run.Deadline.Sub(run.Started); !run.Deadline.IsZero() && limit > 0 {
		a.deadline = now.Add(limit) // a duration of the server's clock, so that clocks may differ
	}
	d.attempts[run.Token] = a
	if d.nextHeartbeat.IsZero() || a.heartbeatAt.Before(d.nextHeartbeat) {
		d.nextHeartbeat = a.heartbeatAt
	}
	q.held++
	if d.room(q) {
		d.begin(a)
	} else {
		q.waiting = append(q.waiting, a)
	}
}

// heartbeatInterval is how often an attempt heartbeats: every quarter of its lease, at most 10 s apart.
func heartbeatInterval(lease time.Duration) time.Duration {
	return min(cmp.Or(lease, carillon.DefaultLease)/4, 10*time.Second)
}

// room reports whether an attempt of the queue may start: none does that would be told at once to end.
func (d *inFlight) room(q *queue) bool { return q.running < q.limit && d.base.Err() == nil }

// start lets an attempt go on.
func (d *inFlight) start(a *attempt) {
	a.queue.running++
	ctx, stop := context.WithCancelCause(context.WithValue(d.base, handlingKey{}, handling{d, a}))
	a.stop = stop
	go func() {
		end := context.CancelFunc(func() {})
		if !a.deadline.IsZero() {
			ctx, end = context.WithDeadline(ctx, a.deadline)
		}
		call(ctx, a.queue.handle, a.run, func(err error) {
			left := errors.Is(context.Cause(ctx), ErrLeaving)
			end()
			stop(nil)
			d.finished(a, err, left)
		})
	}()
}

// finished takes what a handler returned. An attempt that gave up because the worker leaves is not reported: it is to be
// given back.
func (d *inFlight) finished(a *attempt, err error, left bool) {
	if p, ok := errors.AsType[*panicked](err); ok {
		d.log.Error("a handler panicked", "queue", a.queue.name, "job", a.run.Job, "run", a.run.ID, "panic", p.value, "stack", string(p.stack))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q := a.queue
	q.running--
	q.held--
	if !a.dropped && (err == nil || !left) {
		a.ended, a.result = true, resultOf(&a.run, err)
		a.run.Data, a.run.Metadata = carillon.Data{}, nil
		d.list(a)
	}
	d.beginWaiting(q)
	ring(d.bell)
	d.checkDrained()
}

// list puts an attempt's result among those to be sent.
func (d *inFlight) list(a *attempt) {
	if a.ended && !a.listed {
		a.listed = true
		d.results = append(d.results, a)
	}
}

// drop stops an attempt of which nothing is to be reported.
func (d *inFlight) drop(token string, cause error) {
	a := d.attempts[token]
	if a == nil {
		return
	}
	a.dropped = true
	if a.stop != nil {
		a.stop(cause)
	} else {
		a.queue.waiting = slices.DeleteFunc(a.queue.waiting, func(w *attempt) bool { return w == a })
		a.queue.held--
	}
	d.remove(a)
}

// remove forgets an attempt.
func (d *inFlight) remove(a *attempt) {
	delete(d.attempts, a.run.Token)
	ring(d.bell)
	d.checkDrained()
}

func (d *inFlight) checkDrained() {
	if d.leaving {
		ring(d.drained)
	}
}

// empty reports whether nothing is left to do or to say.
func (d *inFlight) empty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.attempts) == 0 && !slices.ContainsFunc(d.queues, func(q *queue) bool { return q.held > 0 })
}

// settled reports whether every handler has returned, and what they returned is known to be durable. Attempts that did not
// start, or gave up, may be left.
func (d *inFlight) settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.attempts {
		if a.ended {
			return false
		}
	}
	return !slices.ContainsFunc(d.queues, func(q *queue) bool { return q.running > 0 })
}

// owed reports whether the server may deliver more, or thinks that the worker has something.
func (d *inFlight) owed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.attempts) > 0 || slices.ContainsFunc(d.queues, func(q *queue) bool { return q.granted > 0 })
}

// leave ends the granting of credits.
func (d *inFlight) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaving = true
}

// close refuses runs that still come.
func (d *inFlight) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// left is how many attempts have not ended, and how many results are not known to be durable.
func (d *inFlight) left() (unfinished, unsure int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.attempts {
		if a.ended {
			unsure++
		} else {
			unfinished++
		}
	}
	return unfinished, unsure
}

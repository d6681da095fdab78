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
	"github.com/carillonhq/carillon/internal/tracecontext"
)

// queue is one queue and its handler. The fields after limit are guarded by inFlight's lock.
type queue struct {
	name   string
	handle handler
	limit  int // concurrent runs

	granted int        // credits that the current session has and has not used
	held    int        // runs that take room: waiting, going on, or dropped and not yet returned
	running int        // handlers that have not returned
	waiting []*attempt // beyond the limit: they came through an older session's credits
}

// phase of an attempt:
//
//	waiting ──► running ──► ended ──► (acknowledged)
//	               └──────► returned
//	each of them ─────────► dropped
type phase uint8

const (
	waiting  phase = iota // for room, or for the answer that its lease is in force
	running               // its handler has not returned
	ended                 // its result is there
	returned              // its handler gave up because the worker leaves: the run is to be given back
	dropped               // cancelled or stale: nothing is reported
)

// attempt is one attempt of a run. inFlight's lock guards it.
type attempt struct {
	run           carillon.Run
	queue         *queue
	deadline      time.Time // by this machine's clock; zero: none
	heartbeatEach time.Duration
	heartbeatAt   time.Time // when to send a heartbeat, or the result again
	lease         lease

	stop   context.CancelCauseFunc // nil while it waits
	phase  phase
	result carillon.Result
	queued bool // in inFlight.results

	progress      *carillon.Progress // to be sent; nil: none. Otherwise the attempt is in inFlight.progressing
	progressAfter time.Time          // not before
}

// inFlight holds the attempts that wait, go on, or have ended without the server's confirmation that their
// result is durable. Its methods may be called from any goroutine.
type inFlight struct {
	log     *slog.Logger
	base    context.Context // of all handlers
	wake    chan struct{}   // capacity 1; filled when there may be something to send
	drained chan struct{}   // capacity 1; while leaving, filled when less may be left to wait for

	mu            sync.Mutex
	queues        []*queue
	byName        map[string]*queue
	attempts      map[string]*attempt // by token
	results       []*attempt          // to be sent
	progressing   []*attempt          // whose progress is to be sent
	nextHeartbeat time.Time           // the least heartbeatAt, or earlier; zero: no heartbeats
	link          *link               // the current session; nil: none
	pinged        bool                // the server waits for a sign of life
	leaving       bool                // no more credits are granted
	closed        bool                // runs that still come are refused
}

func newInFlight(base context.Context, log *slog.Logger, queues []*queue) *inFlight {
	d := &inFlight{
		log: log, base: base, wake: make(chan struct{}, 1), drained: make(chan struct{}, 1),
		queues: queues, byName: map[string]*queue{}, attempts: map[string]*attempt{},
	}
	for _, q := range queues {
		d.byName[q.name] = q
	}
	return d
}

// signal fills a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// attach makes l the current session: it sends a heartbeat for every attempt at once, and has no credits yet.
func (d *inFlight) attach(l *link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.link = l
	for _, q := range d.queues {
		q.granted = 0
	}
	d.nextHeartbeat = time.Now()
	for _, a := range d.attempts {
		a.heartbeatAt = d.nextHeartbeat
	}
	d.pinged = false
	signal(d.wake)
}

// receive handles a message from a session.
func (d *inFlight) receive(l *link, msg *carillon.WorkResponse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, token := range msg.Acks {
		if a := d.attempts[token]; a != nil && a.phase == ended {
			d.remove(a)
		}
	}
	for _, token := range msg.Stale {
		d.stop(token, ErrStale)
	}
	for _, token := range msg.Cancel {
		d.stop(token, ErrCancelled)
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
	signal(d.wake)
}

// add adds an attempt that was sent after since. One that is here already is not started twice.
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
		d.queueResult(a)
		return
	}
	now := time.Now()
	a := &attempt{run: *run, queue: q, heartbeatEach: heartbeatInterval(run.Lease),
		lease: newLease(run.Lease, since)}
	a.heartbeatAt = now.Add(a.heartbeatEach)
	if limit := run.Deadline.Sub(run.Started); !run.Deadline.IsZero() && limit > 0 {
		a.deadline = now.Add(limit) // a duration by the server's clock, so that clocks may differ
	}
	d.attempts[run.Token] = a
	d.nextHeartbeat = earlier(d.nextHeartbeat, a.heartbeatAt)
	q.held++
	if d.canStart(q) {
		d.startOrAsk(a)
	} else {
		q.waiting = append(q.waiting, a)
	}
}

// heartbeatInterval returns how often an attempt sends heartbeats: every quarter of its lease, at most 10 s
// apart.
func heartbeatInterval(lease time.Duration) time.Duration {
	return min(cmp.Or(lease, carillon.DefaultLease)/4, 10*time.Second)
}

// earlier returns the earlier of two times; a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// canStart reports whether an attempt of the queue may start. Once the handlers' contexts have ended, none
// may.
func (d *inFlight) canStart(q *queue) bool { return q.running < q.limit && d.base.Err() == nil }

// start calls the handler of an attempt.
func (d *inFlight) start(a *attempt) {
	a.queue.running++
	base := tracecontext.With(d.base, a.run.Metadata[tracecontext.Parent], a.run.Metadata[tracecontext.State])
	ctx, stop := context.WithCancelCause(context.WithValue(base, handlingKey{}, handling{d, a}))
	a.stop, a.phase = stop, running
	go func() {
		end := context.CancelFunc(func() {})
		if !a.deadline.IsZero() {
			ctx, end = context.WithDeadline(ctx, a.deadline)
		}
		call(ctx, a.queue.handle, a.run, func(result []byte, err error) {
			left := errors.Is(context.Cause(ctx), ErrLeaving)
			end()
			stop(nil)
			d.finished(a, result, err, left)
		})
	}()
}

// finished records what a handler returned. An attempt that gave up because the worker leaves is not
// reported: it is to be given back.
func (d *inFlight) finished(a *attempt, result []byte, err error, left bool) {
	if p, ok := errors.AsType[*panicked](err); ok {
		d.log.Error("a handler panicked", "queue", a.queue.name, "job", a.run.Job, "run", a.run.ID, "panic",
			p.value, "stack", string(p.stack))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q := a.queue
	q.running--
	q.held--
	switch {
	case a.phase == dropped:
	case left && err != nil:
		a.phase = returned
	default:
		a.phase, a.result = ended, resultOf(&a.run, result, err)
		a.run.Data, a.run.Metadata = carillon.Data{}, nil
		d.queueResult(a)
	}
	d.startWaiting(q)
	signal(d.wake)
	d.checkDrained()
}

// queueResult adds an attempt's result to those to be sent.
func (d *inFlight) queueResult(a *attempt) {
	if a.phase == ended && !a.queued {
		a.queued = true
		d.results = append(d.results, a)
	}
}

// stop stops an attempt of which nothing is to be reported.
func (d *inFlight) stop(token string, cause error) {
	a := d.attempts[token]
	if a == nil {
		return
	}
	if a.phase == waiting {
		a.queue.waiting = slices.DeleteFunc(a.queue.waiting, func(w *attempt) bool { return w == a })
		a.queue.held--
	} else {
		a.stop(cause)
	}
	a.phase = dropped
	d.remove(a)
}

// remove forgets an attempt.
func (d *inFlight) remove(a *attempt) {
	delete(d.attempts, a.run.Token)
	signal(d.wake)
	d.checkDrained()
}

func (d *inFlight) checkDrained() {
	if d.leaving {
		signal(d.drained)
	}
}

// remains are what a worker that leaves may have left.
type remains struct {
	unfinished int // attempts that have not ended
	unsure     int // results that are not known to be durable
	held       int // runs that take room
	running    int // handlers that have not returned
	granted    int // credits that are not used
}

// remaining returns what is left.
func (d *inFlight) remaining() (r remains) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.attempts {
		if a.phase == ended {
			r.unsure++
		} else {
			r.unfinished++
		}
	}
	for _, q := range d.queues {
		r.held += q.held
		r.running += q.running
		r.granted += max(0, q.granted)
	}
	return r
}

// stopGranting stops granting credits.
func (d *inFlight) stopGranting() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaving = true
}

// refuseRuns refuses runs that still come.
func (d *inFlight) refuseRuns() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// Tracer makes a span of each attempt. The span is made when the attempt ends, by whichever owner sees that;
// its ids follow from the attempt, so that consumers can be given them before. Calls must not block.
type Tracer interface {
	// Context returns the trace context of an attempt's span, for its consumer. It is the same each time.
	Context(a delivery.Attempt) delivery.Trace
	// Ended makes the span of an attempt.
	Ended(a delivery.EndedAttempt)
}

// traced adds the trace context that the attempt's consumer gets. Only workers find it in the metadata;
// others get it by means of their own.
func (a *Attempts) traced(e *entry, d *delivery.Delivery) {
	if a.cfg.Tracer == nil && e.state.Trace == "" {
		return
	}
	at := e.tracedAttempt(d.Run.ID)
	if a.cfg.Tracer != nil {
		d.Trace = a.cfg.Tracer.Context(at)
	} else {
		d.Trace = at.PassedOn()
	}
	if traitsOf(d.Queue.Kind).heartbeats {
		d.Run.Metadata = d.Trace.Into(d.Run.Metadata)
	}
}

// tracedAttempt returns what the trace context of the attempt in force follows from. The spec must be in
// memory.
func (e *entry) tracedAttempt(runID string) delivery.Attempt {
	r := &e.state.Run
	return delivery.Attempt{RunID: runID, Number: r.Attempt, Cause: delivery.Trace(e.state.Trace),
		Own: r.Cause == carillon.CauseBackfill || r.Cause == carillon.CauseSchedule && e.job().Recurring()}
}

// endTrace tells the tracer that the attempt in force ends. Call it before anything about the attempt
// changes.
func (a *Attempts) endTrace(e *entry, now int64, how delivery.Ending, message string, r *delivery.Report) {
	if a.cfg.Tracer == nil || e.specOf() == nil {
		return
	}
	id, run, started := e.state.Identity(a.cfg.Partition), &e.state.Run, e.attemptStarted()
	ended := delivery.EndedAttempt{
		Attempt: e.tracedAttempt(id.String()), Job: e.ref.Key, Queue: e.queueOrTarget(), Trigger: run.Cause,
		Scheduled: toTime(run.Scheduled), Due: toTime(run.Due), Started: toTime(started),
		Ended:    toTime(max(now, started)),
		Lateness: max(0, time.Duration(started-e.lateFrom(started))), Ending: how, Message: message,
	}
	if r != nil {
		ended.Worker = r.Worker
	}
	a.cfg.Tracer.Ended(ended)
}

// attemptStarted returns when the attempt in force was handed out. Of one that an earlier owner handed out,
// the store knows when it would end.
func (e *entry) attemptStarted() int64 {
	r := &e.state.Run
	switch {
	case e.attempt.origin == handedOut:
		return e.attempt.granted
	case e.attempt.origin == takenOver && r.Attempt == 1:
		return r.Started
	case e.attempt.origin == takenOver:
		started := r.Deadline - int64(e.job().TimeoutOrDefault())
		return max(r.Due, started-int64(traitsOf(e.queueOrTarget().Kind).timeoutGrace))
	}
	return r.Due // it was in doubt: nobody wrote when it was handed out
}

// queueOrTarget returns the queue of e's attempt in force.
func (e *entry) queueOrTarget() delivery.Queue {
	if e.queue != nil {
		return *e.queue
	}
	return e.targetQueue()
}

// finishedTrace returns the trace context of the last attempt of e's run, if spans are made.
func (rs *runs) finishedTrace(e *entry) delivery.Trace {
	if rs.cfg.Tracer == nil || e.state.Run.Attempt == 0 {
		return ""
	}
	return rs.cfg.Tracer.Context(e.tracedAttempt(e.state.Identity(rs.cfg.Partition).String()))
}

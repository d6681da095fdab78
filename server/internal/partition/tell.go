package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// What the event log is told, and in which batch: each of these is called with the change that it tells. They
// cost a comparison while nobody watches.

// tellJob tells what has become of a job.
func (l *EventLog) tellJob(now int64, job *entry, t carillon.EventType) {
	if l.on(now, t) {
		l.add(now, store.Event{Type: t, Key: job.ref.Key, Generation: job.state.Generation})
	}
}

// reasonFailure says that a job was paused because of an attempt's result, or since it cannot go on.
const reasonFailure = "failure"

// tellPaused tells that a job was paused or resumed. why is the note of a pause that no caller asked for.
func (l *EventLog) tellPaused(now int64, job *entry, why string) {
	switch {
	case !job.state.Paused:
		l.tellJob(now, job, carillon.EventJobResumed)
	case why == "":
		l.tellJob(now, job, carillon.EventJobPaused)
	case l.on(now, carillon.EventJobPaused):
		l.add(now, store.Event{Type: carillon.EventJobPaused, Key: job.ref.Key,
			Generation: job.state.Generation, Reason: reasonFailure, Error: why})
	}
}

// tellRun tells what has become of a run. retryAt is when it is tried again; 0: it is not.
func (l *EventLog) tellRun(now int64, r *store.RunRecord, generation uint64, retryAt int64) {
	t := carillon.EventRunRetrying
	if retryAt == 0 {
		t = endedTypes[r.Status]
	}
	if !l.on(now, t) {
		return
	}
	e := store.Event{Type: t, Time: now, Key: r.Key, Generation: generation, Run: r.ID,
		Attempt: r.Attempt, Reason: r.Reason, RetryAt: retryAt, Skipped: r.Skipped, From: r.From}
	switch t {
	case carillon.EventRunRetrying, carillon.EventRunFailed, carillon.EventRunDead:
		if n := len(r.Errors); n > 0 {
			e.Error = r.Errors[n-1].Message
		}
	}
	l.add(now, e)
}

// endedTypes are the types of events that tell how runs ended.
var endedTypes = [...]carillon.EventType{
	carillon.RunSucceeded: carillon.EventRunSucceeded,
	carillon.RunFailed:    carillon.EventRunFailed,
	carillon.RunDead:      carillon.EventRunDead,
	carillon.RunCancelled: carillon.EventRunCancelled,
	carillon.RunSkipped:   carillon.EventRunSkipped,
}

// tellLate tells once that the first attempt of e's run, which is in force, began late. An attempt that has
// not been handed out may be taken back.
func (a *Attempts) tellLate(e *entry) {
	r := &e.state.Run
	if e.attempt.told || e.attempt.pending != 0 {
		return
	}
	e.attempt.told = true
	l, now := a.out.events, max(a.agenda.ticked, a.cfg.Since)
	if !l.on(now, carillon.EventRunLate) || !e.countedLate() {
		return
	}
	l.add(now, store.Event{Type: carillon.EventRunLate, Key: e.ref.Key, Generation: e.contentGeneration(),
		Run: e.state.Identity(a.cfg.Partition), Attempt: r.Attempt, Late: r.Started - e.lateFrom(r.Started)})
}

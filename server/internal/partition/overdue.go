package partition

import (
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// overdue handles an attempt in force whose lease, timeout or age has reached its limit.
func (rs *runs) overdue(e *entry, now int64) {
	over := e.over() <= now
	switch {
	case over && rs.records.specMissing(e):
		rs.due.block(e)
	case over && e.putsOff(now):
		rs.agenda.rearm(e)
	case over && e.state.Run.Kept && (e.traits().endsWithStream || e.state.Run.Deadline > now):
		rs.attempts.miss(e, now)
	case e.state.Run.Deadline <= now:
		rs.attempts.stopUnheard(e)
		rs.fail(e, now, failure{message: "timeout: no result within " + schedule.Brief(e.job().TimeoutOrDefault())})
	case e.attempt.lease <= now:
		rs.attempts.stopUnheard(e)
		rs.fail(e, now, failure{message: "lease expired: no heartbeat within " + schedule.Brief(e.job().LeaseOrDefault()),
			lost: true})
	case !e.attempt.current && e.attempt.granted+int64(grantAfter) <= now && rs.attempts.mayKeep(e, now):
		rs.attempts.keep(e)
		rs.agenda.rearm(e)
	default:
		rs.agenda.rearm(e)
	}
}

// suspend pauses a recurring job whose schedule can no longer be parsed, for example because its time zone
// was removed from the node's data. The job keeps its next time, for when that is mended.
func (rs *runs) suspend(e *entry, now int64) {
	_, err := e.job().ParseSchedule()
	rs.pause(e, now, fmt.Sprintf("paused because the schedule cannot be read any more: %v", err))
}

// endLife removes a job whose life has ended while it was paused.
func (rs *runs) endLife(e *entry, now int64) {
	switch {
	case e.state.Expires == 0 || now <= e.state.Expires:
		rs.agenda.rearm(e)
		return
	case rs.records.specMissing(e):
		rs.due.block(e)
		return
	}
	reason := ReasonPaused
	if !e.job().Recurring() {
		reason = ReasonExpired
	}
	rs.skipLife(e, now, reason)
	rs.due.touch(e)
	rs.endOrRearm(e)
}

// expireRun ends a run that waited for a consumer until its job's life was over.
func (rs *runs) expireRun(e *entry, now int64) {
	if rs.records.specMissing(e) {
		rs.due.block(e)
		return
	}
	end := ending{status: carillon.RunSkipped, reason: ReasonExpired}
	if e.state.Run.Attempt > 0 || e.doubtful() { // it waited for a retry, and gets none
		j := e.job()
		end.status = exhausted(j.FailurePolicy.Resolve(j.Recurring()))
	}
	rs.skipLife(e, now, ReasonExpired)
	rs.finish(e, now, end)
}

// remove deletes the record. It stays in memory until the delete is durable.
func (w *Window) remove(e *entry) {
	w.unlist(e)
	e.move(gone)
	e.decoded, e.sched = nil, nil
	w.agenda.set(e, 0)
	w.due.touch(e)
	if e.ref.Seq == 0 {
		w.records.deleting[e.ref.Key] = w.out.seq
		w.due.permits.releaseAll(e.ref.Key)
		w.usage.moved(e.ref.Key, e.state.Payload, none)
	}
	if e.parent != nil {
		if e.settleCounts(e.parent, true) && e.parent.place != gone {
			w.out.note(e.parent)
		}
		e.parent.children--
		e.parent = nil
	} else if e.ref.Seq != 0 {
		w.records.disown(e)
	}
}

// unlist takes e out of its queue, its line or the attempts in force.
func (w *Window) unlist(e *entry) {
	switch e.place {
	case ready, aside:
		w.due.dequeue(e)
	case running:
		w.attempts.drop(e)
	case blocked:
		e.move(idle)
	case idle, gone:
	}
	if e.state.Run.Live {
		delete(w.records.live, e.state.Identity(w.cfg.Partition))
	}
}

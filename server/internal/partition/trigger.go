package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Trigger makes a run of the job that is due now. It does not affect the schedule, and works for a paused
// job, too.
func (js *Jobs) Trigger(now int64, key carillon.Key) (carillon.Run, error) {
	job := js.records.find(key)
	if job == nil {
		return carillon.Run{}, notFound(key)
	}
	if err := full(job); err != nil {
		return carillon.Run{}, err
	}
	job.state.Triggers++
	e := js.runs.addPending(job, store.State{
		UID: job.state.UID, Generation: job.state.Generation, Created: now, Updated: now,
		Priority: job.state.Priority, Run: store.RunState{Live: true, Scheduled: now, Due: now,
			Cause: carillon.CauseTrigger, Seq: job.state.Triggers},
	}, nil)
	return js.records.runView(e), nil
}

// Skip makes a recurring job skip one scheduled time: that of the run that has begun without an attempt, or
// else the next one.
func (js *Jobs) Skip(now int64, key carillon.Key) (carillon.SkipResult, error) {
	e := js.records.find(key)
	if e == nil {
		return carillon.SkipResult{}, notFound(key)
	}
	s, p := &e.state, js.contents.timetableOf(e)
	switch {
	case !p.job.Recurring():
		return carillon.SkipResult{}, carillon.Errorf(carillon.FailedPrecondition, "name",
			"job %q runs once, there is no other time to go on with: delete it instead", key.Name)
	case p.sched == nil:
		return carillon.SkipResult{}, carillon.Errorf(carillon.FailedPrecondition, "schedule",
			"the schedule of job %q cannot be read any more: put it again", key.Name)
	case e.untried():
		t := s.Run.Scheduled
		js.runs.detach(e, now, true)
		js.runs.finish(e, now, ending{status: carillon.RunSkipped, reason: ReasonSkipped})
		return carillon.SkipResult{Time: toTime(t), Job: js.records.view(e)}, nil
	case s.Next == 0:
		return carillon.SkipResult{}, carillon.Errorf(carillon.FailedPrecondition, "name",
			"job %.64q has no scheduled time left", key.Name)
	}
	t := p.shownNext()
	if t == 0 {
		return carillon.SkipResult{}, carillon.Errorf(carillon.FailedPrecondition, "name",
			"calendars exclude all times of job %.64q that are in sight", key.Name)
	}
	js.runs.skipTimes(e, p.skip(s.Next, t, ReasonSkipped), now)
	js.runs.endOrRearm(e)
	return carillon.SkipResult{Time: toTime(t), Job: js.records.view(e)}, nil
}

// Cancel ends an unfinished run; ok is false if it is not in memory.
func (js *Jobs) Cancel(now int64, id store.RunID) (c carillon.CancelResult, ok bool) {
	e := js.records.live[id]
	if e == nil || js.records.specMissing(e) {
		return c, false
	}
	c.Interrupted = js.runs.abort(e, now, "")
	c.Prevented = !c.Interrupted
	return c, true
}

// Redrive gives a dead run a fresh set of attempts under the same id and a new generation, so that no token
// of its earlier attempts is in force again. Attempt numbers continue, so the last one says how many were
// made. The run keeps the errors that it died of. If its job is gone, the job comes back for this run alone.
func (js *Jobs) Redrive(now int64, dead store.RunRecord) (carillon.Run, error) {
	if js.records.live[dead.ID] != nil {
		return carillon.Run{}, carillon.Errorf(carillon.FailedPrecondition, "id",
			"the run is being tried again already")
	}
	run := store.RunState{Live: true, Scheduled: dead.ID.Scheduled, Due: now, Cause: dead.ID.Cause,
		Seq: dead.ID.Seq, Attempt: dead.Attempt, Uncounted: dead.Attempt, Started: dead.Started,
		Errors: redriven(dead.Errors)}
	s := store.State{UID: dead.ID.UID, Generation: dead.Grant.Generation + 1, Created: now,
		Updated: now, Run: run}
	gone := store.RunRef{Key: dead.Key, ID: dead.ID}
	if job := js.records.find(dead.Key); job != nil {
		if err := full(job); err != nil {
			return carillon.Run{}, err
		}
		js.out.redrive = append(js.out.redrive, gone)
		job.state.Triggers++
		countAgain(&job.state, &dead)
		s.Priority = job.state.Priority
		return js.records.runView(js.runs.addPending(job, s, dead.Spec)), nil
	}
	e := &entry{ref: store.Ref{Key: dead.Key}, state: s, timer: -1, slot: -1, fresh: true}
	js.contents.set(e, dead.Spec)
	e.state.Phase, e.state.Priority = carillon.PhaseReady, e.job().Priority.Rank()
	e.state.Settled = js.cfg.Term.Epoch
	e.state.Counters.Fired = 1     // the run has begun
	e.state.Triggers = uint64(now) // the job has its old uid, whose sequences must not be used again
	if js.records.entries[e.ref] != nil {
		js.seal() // the delete of its namesake must come first
	}
	js.out.redrive = append(js.out.redrive, gone)
	js.records.entries[e.ref] = e
	js.records.live[dead.ID] = e
	js.due.touch(e)
	js.due.block(e) // until it is durable
	return js.records.runView(e), nil
}

// redriven returns the errors of a run, marked as being from before a redrive.
func redriven(errs []carillon.AttemptError) []carillon.AttemptError {
	out := slices.Clone(errs)
	for i := range out {
		out[i].Redriven = true
	}
	return out
}

// Run returns an unfinished run; ok is false if it is not in memory.
func (rs *Records) Run(id store.RunID) (r carillon.Run, ok bool) {
	e := rs.live[id]
	if e == nil {
		return r, false
	}
	rs.out.await(e.seq)
	return rs.runView(e), true
}

// Holds returns the record in memory whose unfinished run has the id.
func (rs *Records) Holds(id store.RunID) (ref store.Ref, ok bool) {
	e := rs.live[id]
	if e == nil {
		return ref, false
	}
	return e.ref, true
}

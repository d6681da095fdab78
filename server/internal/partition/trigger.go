package partition

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Trigger makes a run of the job that is due now. It does not affect the schedule, and works for a paused
// job, too. The options may give the run content of its own, which edits of the job do not reach, and the
// rule for the runs that go on. trace is that of the call, if there is one.
func (js *Jobs) Trigger(now int64, key carillon.Key, o carillon.TriggerOptions,
	trace ...delivery.Trace) (carillon.Run, error) {
	if err := o.Validate(js.cfg.Limits); err != nil {
		return carillon.Run{}, err
	}
	job := js.records.find(key)
	if job == nil {
		return carillon.Run{}, notFound(key)
	}
	if err := js.mayTrigger(job, now, o.Rule()); err != nil {
		return carillon.Run{}, err
	}
	if o.Data != nil && o.Data.Ref != nil && job.job().Target.Dapr != nil {
		return carillon.Run{}, carillon.Errorf(carillon.InvalidArgument, "payload",
			"jobs of Dapr keep their data with them: give data")
	}
	var others []*entry
	if o.Rule() == carillon.OverlapReplace {
		others = js.records.familyOf(job).runs
	}
	job.state.Triggers++
	e := js.runs.addPending(job, store.State{
		UID: job.state.UID, Generation: job.state.Generation, Created: now, Updated: now,
		Priority: job.state.Priority, Run: store.RunState{Live: true, Scheduled: now, Due: now,
			Cause: carillon.CauseTrigger, Seq: job.state.Triggers}, Trace: string(cmp.Or(trace...)),
	}, ownSpec(job, &o))
	for _, other := range others { // now that the job has a pending run, it does not end with them
		js.runs.abort(other, now, ReasonOverlap)
	}
	return js.records.runView(e), nil
}

// mayTrigger returns an error if a run must not be made because of the job's unfinished runs.
func (js *Jobs) mayTrigger(job *entry, now int64, rule carillon.Overlap) error {
	s := &job.state
	switch {
	case rule == carillon.OverlapSkip && (s.Run.Live || s.Pending > 0 || js.agenda.beginsNow(job, now)):
		return carillon.Errorf(carillon.FailedPrecondition, "overlap",
			"job %.64q has an unfinished run, and with skip a trigger begins none beside it", job.ref.Name)
	case rule == carillon.OverlapReplace && !job.complete():
		return carillon.Errorf(carillon.FailedPrecondition, "overlap",
			"job %.64q has unfinished runs that are older than the %d triggers that are looked through for them: cancel them first",
			job.ref.Name, SearchAll)
	case rule == carillon.OverlapReplace:
		return nil // there will be no other pending runs
	}
	return full(job)
}

// beginsNow reports whether the job's next scheduled time is due, so that it begins in this round.
func (g *agenda) beginsNow(job *entry, now int64) bool {
	s := &job.state
	return s.Next != 0 && !s.Paused && allOpen(s) && g.contents.nextDue(job) <= now
}

// ownSpec returns the spec of a triggered run that has data or metadata of its own; nil if it has neither.
func ownSpec(job *entry, o *carillon.TriggerOptions) []byte {
	if !o.Own() {
		return nil
	}
	j := *job.job()
	if o.Data != nil {
		j.Data = *o.Data
	}
	if len(o.Metadata) > 0 {
		j.Metadata = o.Metadata
	}
	return EncodeSpec(&j)
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
// made. The run keeps the errors that it died of. If its job is gone, the job comes back for this run alone,
// as far as the quotas of its namespace have room for it.
func (js *Jobs) Redrive(now int64, dead store.RunRecord) (carillon.Run, error) {
	if js.records.live[dead.ID] != nil {
		return carillon.Run{}, carillon.Errorf(carillon.FailedPrecondition, "id",
			"the run is being tried again already")
	}
	run := store.RunState{Live: true, Scheduled: dead.ID.Scheduled, Due: now, Cause: dead.ID.Cause,
		Seq: dead.ID.Seq, Attempt: dead.Attempt, Uncounted: dead.Attempt, Started: dead.Started,
		Errors: redriven(dead.Errors)}
	s := store.State{UID: dead.ID.UID, Generation: dead.Grant.Generation + 1, Created: now,
		Updated: now, Run: run, Trace: dead.Trace}
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
	if err := js.fits(now, nil, e.job()); err != nil {
		js.contents.bytes -= len(e.spec)
		return carillon.Run{}, err
	}
	e.state.Phase, e.state.Priority = carillon.PhaseReady, e.job().Priority.Rank()
	e.state.Payload = message.Payload(e.job())
	e.state.Settled = js.cfg.Term.Epoch
	e.state.Counters.Fired = 1     // the run has begun
	e.state.Triggers = uint64(now) // the job has its old uid, whose sequences must not be used again
	if js.records.entries[e.ref] != nil {
		js.seal() // the delete of its namesake must come first
	}
	js.out.redrive = append(js.out.redrive, gone)
	js.records.entries[e.ref] = e
	js.usage.moved(e.ref.Key, none, e.state.Payload)
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

package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store"
)

// Trigger makes a run of the job that is due now. It does not affect the schedule, and works for a paused
// job, too.
func (m *Machine) Trigger(now int64, key carillon.Key) (carillon.Run, error) {
	job := m.Records.find(key)
	if job == nil {
		return carillon.Run{}, notFound(key)
	}
	if err := full(job); err != nil {
		return carillon.Run{}, err
	}
	job.state.Triggers++
	e := m.addPending(job, store.State{
		UID: job.state.UID, Generation: job.state.Generation, Created: now, Updated: now, Priority: job.state.Priority,
		Run: store.RunState{Live: true, Scheduled: now, Due: now, Cause: carillon.CauseTrigger, Seq: job.state.Triggers},
	}, nil)
	return m.Records.runView(e), nil
}

// Skip makes a recurring job skip one scheduled time: that of the run that has begun without an attempt, or
// else the next one.
func (m *Machine) Skip(now int64, key carillon.Key) (carillon.SkipResult, error) {
	e := m.Records.find(key)
	if e == nil {
		return carillon.SkipResult{}, notFound(key)
	}
	s, p := &e.state, m.contents.timetableOf(e)
	switch {
	case !p.job.Recurring():
		return carillon.SkipResult{}, carillon.Errorf(carillon.FailedPrecondition, "name",
			"job %q runs once, there is no other time to go on with: delete it instead", key.Name)
	case p.sched == nil:
		return carillon.SkipResult{}, carillon.Errorf(carillon.FailedPrecondition, "schedule",
			"the schedule of job %q cannot be read any more: put it again", key.Name)
	case e.untried():
		t := s.Run.Scheduled
		m.detach(e, now, true)
		m.finish(e, now, ending{status: carillon.RunSkipped, reason: ReasonSkipped})
		return carillon.SkipResult{Time: toTime(t), Job: m.Records.view(e)}, nil
	case s.Next == 0:
		return carillon.SkipResult{}, carillon.Errorf(carillon.FailedPrecondition, "name", "job %.64q has no scheduled time left", key.Name)
	}
	t := s.Next
	m.skipTimes(e, p.skip(t, t, ReasonSkipped), now)
	m.removeOrRearm(e)
	return carillon.SkipResult{Time: toTime(t), Job: m.Records.view(e)}, nil
}

// addPending makes a pending run of a job. It is a record of its own, independent of the job's own run.
func (m *Machine) addPending(job *entry, s store.State, spec []byte) *entry {
	job.state.Pending++
	m.out.note(job)
	s.Phase, s.Settled = carillon.PhaseReady, m.cfg.Term.Epoch
	e := &entry{ref: store.Ref{Key: job.ref.Key, Seq: job.state.Triggers}, state: s, timer: -1}
	if spec != nil {
		m.contents.set(e, spec)
		e.fresh, e.state.OwnSpec = true, true
	}
	m.Records.entries[e.ref] = e
	m.Records.live[s.Identity(m.cfg.Partition)] = e
	m.Window.link(e, job)
	m.due.touch(e)
	m.due.block(e) // until it is durable
	return e
}

// Cancel ends an unfinished run; ok is false if it is not in memory.
func (m *Machine) Cancel(now int64, id identity.Run) (c carillon.CancelResult, ok bool) {
	e := m.Records.live[id]
	if e == nil || m.Records.specMissing(e) {
		return c, false
	}
	c.Interrupted = m.abort(e, now, "")
	c.Prevented = !c.Interrupted
	return c, true
}

// abort ends e's run wherever it is, and reports whether a consumer had it. The spec must be in memory.
func (m *Machine) abort(e *entry, now int64, reason string) (interrupted bool) {
	interrupted = m.detach(e, now, false)
	m.finish(e, now, ending{status: carillon.RunCancelled, reason: reason})
	return interrupted
}

// detach takes e's run, which is about to end, out of where it waits or goes on, and reports whether a
// consumer had it. With unrepeat, a run that has had no attempt gives back the repeat that it has used up.
func (m *Machine) detach(e *entry, now int64, unrepeat bool) (interrupted bool) {
	interrupted = m.Attempts.revoke(e)
	if unrepeat {
		m.unrepeat(e, now)
	}
	m.Window.unlist(e)
	return interrupted
}

// closeRun ends the detached run of a job itself. In contrast to finish it leaves alone what comes next.
func (m *Machine) closeRun(job *entry, now int64, end ending) {
	m.keepRun(job, now, end)
	job.state.Run, job.state.Phase = store.RunState{}, carillon.PhaseScheduled
}

// Redrive gives a dead run a fresh set of attempts under the same id and a new generation, so that no token
// of its earlier attempts is in force again. Attempt numbers continue, so the last one says how many were
// made. The run keeps the errors that it died of. If its job is gone, the job comes back for this run alone.
func (m *Machine) Redrive(now int64, dead store.RunRecord) (carillon.Run, error) {
	if m.Records.live[dead.ID] != nil {
		return carillon.Run{}, carillon.Errorf(carillon.FailedPrecondition, "id", "the run is being tried again already")
	}
	run := store.RunState{Live: true, Scheduled: dead.ID.Scheduled, Due: now, Cause: dead.ID.Cause, Seq: dead.ID.Seq,
		Attempt: dead.Attempt, Uncounted: dead.Attempt, Started: dead.Started, Errors: redriven(dead.Errors)}
	s := store.State{UID: dead.ID.UID, Generation: dead.Grant.Generation + 1, Created: now, Updated: now, Run: run}
	gone := store.RunRef{Key: dead.Key, ID: dead.ID}
	if job := m.Records.find(dead.Key); job != nil {
		if err := full(job); err != nil {
			return carillon.Run{}, err
		}
		m.out.redrive = append(m.out.redrive, gone)
		job.state.Triggers++
		countAgain(&job.state, dead.ID.UID)
		s.Priority = job.state.Priority
		return m.Records.runView(m.addPending(job, s, dead.Spec)), nil
	}
	e := &entry{ref: store.Ref{Key: dead.Key}, state: s, timer: -1, fresh: true}
	m.contents.set(e, dead.Spec)
	e.state.Phase, e.state.Priority = carillon.PhaseReady, e.job().Priority.Rank()
	e.state.Settled = m.cfg.Term.Epoch
	e.state.Counters.Fired = 1     // the run has begun
	e.state.Triggers = uint64(now) // the job has its old uid, whose sequences must not be used again
	if m.Records.entries[e.ref] != nil {
		m.seal() // the delete of its namesake must come first
	}
	m.out.redrive = append(m.out.redrive, gone)
	m.Records.entries[e.ref] = e
	m.Records.live[dead.ID] = e
	m.due.touch(e)
	m.due.block(e) // until it is durable
	return m.Records.runView(e), nil
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
func (rs *Records) Run(id identity.Run) (r carillon.Run, ok bool) {
	e := rs.live[id]
	if e == nil {
		return r, false
	}
	rs.out.await(e.seq)
	return rs.runView(e), true
}

// Holds returns the record in memory whose unfinished run has the id.
func (rs *Records) Holds(id identity.Run) (ref store.Ref, ok bool) {
	e := rs.live[id]
	if e == nil {
		return ref, false
	}
	return e.ref, true
}

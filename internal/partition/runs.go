package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Trigger makes a run of the job that is due now, beside its schedule and whether or not it is paused.
func (m *Machine) Trigger(now int64, key carillon.Key) (carillon.Run, error) {
	job := m.find(key)
	if job == nil {
		return carillon.Run{}, notFound(key)
	}
	job.state.Triggers++
	e := m.addPending(job, store.State{
		UID: job.state.UID, Generation: job.state.Generation, Created: now, Updated: now, Class: job.state.Class,
		Run: store.RunState{Live: true, Scheduled: now, Due: now, Cause: carillon.CauseTrigger, Seq: job.state.Triggers},
	}, nil)
	return m.runView(e), nil
}

// addPending makes a pending run of a job: a record of its own, which goes its own way.
func (m *Machine) addPending(job *entry, s store.State, spec []byte) *entry {
	job.state.Pending++
	m.touch(job)
	s.Phase = carillon.PhaseReady
	e := &entry{ref: store.Ref{Key: job.ref.Key, Seq: job.state.Triggers}, state: s, timer: -1}
	if spec != nil {
		m.setSpec(e, spec)
		e.fresh = true
	}
	m.entries[e.ref] = e
	m.live[s.Identity(m.cfg.Partition)] = e
	m.link(e, job)
	m.touch(e)
	m.block(e) // until it is durable
	return e
}

// Cancel ends an unfinished run; ok is false if it is not in memory.
func (m *Machine) Cancel(now int64, id carillon.RunIdentity) (c carillon.Cancelled, ok bool) {
	e := m.live[id]
	if e == nil || m.specMissing(e) {
		return c, false
	}
	c.Interrupted = m.revoke(e)
	c.Prevented = !c.Interrupted
	m.unlist(e)
	m.finish(e, now, ending{status: carillon.RunCancelled})
	return c, true
}

// Redrive gives a dead run a fresh set of attempts under the same id and a new generation, so that no token of its earlier
// ones is in force again. If its job is gone it comes back for this run alone.
func (m *Machine) Redrive(now int64, dead store.RunRecord) (carillon.Run, error) {
	if m.live[dead.ID] != nil {
		return carillon.Run{}, carillon.Errorf(carillon.FailedPrecondition, "run_id", "the run is being tried again already")
	}
	run := store.RunState{Live: true, Scheduled: dead.ID.Scheduled, Due: now, Cause: dead.ID.Cause, Seq: dead.ID.Seq}
	s := store.State{UID: dead.ID.UID, Generation: dead.Grant.Generation + 1, Created: now, Updated: now, Run: run}
	gone := store.RunRef{Key: dead.Key, ID: dead.ID}
	if job := m.find(dead.Key); job != nil {
		m.out.redrive = append(m.out.redrive, gone)
		job.state.Triggers++
		s.Class = job.state.Class
		return m.runView(m.addPending(job, s, dead.Spec)), nil
	}
	e := &entry{ref: store.Ref{Key: dead.Key}, state: s, timer: -1, fresh: true}
	m.setSpec(e, dead.Spec)
	e.state.Phase, e.state.Class = carillon.PhaseReady, m.jobOf(e).Class.Rank()
	if m.entries[e.ref] != nil {
		m.seal() // the delete of its namesake must come first
	}
	m.out.redrive = append(m.out.redrive, gone)
	m.entries[e.ref] = e
	m.live[dead.ID] = e
	m.touch(e)
	m.block(e) // until it is durable
	return m.runView(e), nil
}

// Run is an unfinished run; ok is false if it is not in memory.
func (m *Machine) Run(id carillon.RunIdentity) (r carillon.Run, ok bool) {
	e := m.live[id]
	if e == nil {
		return r, false
	}
	m.wait(e.seq)
	return m.runView(e), true
}

// Holds is the record in memory whose unfinished run has the id.
func (m *Machine) Holds(id carillon.RunIdentity) (ref store.Ref, ok bool) {
	e := m.live[id]
	if e == nil {
		return ref, false
	}
	return e.ref, true
}

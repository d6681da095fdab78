package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// find returns the job, nil if there is none. The engine must have read it if it exists.
func (rs *Records) find(k carillon.Key) *entry {
	e := rs.entries[store.Ref{Key: k}]
	if e == nil || e.place == gone {
		if e != nil {
			rs.out.await(e.seq)
		}
		return nil
	}
	rs.out.await(e.seq)
	return e
}

func notFound(k carillon.Key) error {
	return carillon.Errorf(carillon.NotFound, "name", "there is no job %.64q in namespace %q",
		k.Name, k.Namespace)
}

func otherGeneration(e *entry) error {
	return carillon.Errorf(carillon.FailedPrecondition, "if_generation", "job %.64q is at generation %d",
		e.ref.Name, e.state.Generation)
}

// Exists reports whether there is such a job.
func (rs *Records) Exists(key carillon.Key) bool { return rs.find(key) != nil }

// Job returns a job with its status.
func (rs *Records) Job(key carillon.Key) (carillon.Job, error) {
	e := rs.find(key)
	if e == nil {
		return carillon.Job{}, notFound(key)
	}
	return rs.view(e), nil
}

// Pending returns how many pending runs the job has, in memory or not; 0 if the job is not in memory.
func (rs *Records) Pending(key carillon.Key) int {
	if e := rs.entries[store.Ref{Key: key}]; e != nil && e.place != gone {
		return int(e.state.Pending)
	}
	return 0
}

// PendingRun returns a pending run as memory has it, which may be newer than the store; known is false if it
// is not in memory. ok is false if it has ended.
func (rs *Records) PendingRun(ref store.Ref) (r carillon.Run, ok, known bool) {
	e := rs.entries[ref]
	switch {
	case e == nil:
		return r, false, false
	case e.place == gone || !e.state.Run.Live:
		return r, false, true
	}
	return rs.runView(e), true, true
}

// view returns e's job with its status.
func (rs *Records) view(e *entry) carillon.Job {
	j := *e.job()
	rs.status(e, &j)
	return j
}

func (rs *Records) status(e *entry, j *carillon.Job) {
	StatusOf(j, &e.state, rs.cfg.Partition)
	j.Status.Phase = e.phase()
	ShowNext(j, &e.state, rs.cfg.Calendars)
	if c := j.Status.Current; c != nil {
		c.Status = runStatus(j.Status.Phase)
	}
}

// StatusOf fills in the status that a stored state gives a job. It does not know of runs that wait in memory
// or have just been handed out.
func StatusOf(j *carillon.Job, s *store.State, partition int) {
	j.Paused = s.Paused
	st := &carillon.JobStatus{
		UID: s.UID, Generation: s.Generation, Created: toTime(s.Created), Updated: toTime(s.Updated),
		Phase: s.Phase, NextRun: orTime(s.Next), Counters: s.Counters, Waiting: waitingFor(s),
		Failures: uint32(s.Last.Failures), PendingCount: s.Pending,
	}
	if s.Paused {
		st.NextRun = orTime(0)
	}
	if s.Run.Live {
		r := stateRun(j.Key(), s, partition)
		st.Current = &r
		if !j.Recurring() {
			st.Waiting = nil // there is no next run that would wait
		}
	}
	if l := s.Last; l.Finished != 0 {
		id := store.RunID{Partition: uint16(partition), UID: s.UID, Scheduled: l.Scheduled,
			Cause: l.Cause, Seq: l.Seq}
		st.LastRun = &carillon.Run{ID: id.String(), Namespace: j.Namespace, Job: j.Name, Cause: l.Cause,
			Status: l.Status, Scheduled: toTime(l.Scheduled), Finished: toTime(l.Finished), Attempt: int(l.Attempt),
			Backfill: backfillOf(id)}
	}
	j.Status = st
}

// ShowNext leaves out of the next time of a job, as [StatusOf] has it, what calendars exclude.
func ShowNext(j *carillon.Job, s *store.State, calendars func(namespace, name string) *schedule.Dates) {
	if len(j.Calendars.Names()) == 0 || j.Status.NextRun.IsZero() {
		return
	}
	sched, err := j.ParseSchedule()
	if err != nil || sched == nil {
		return
	}
	j.Status.NextRun = orTime(shownTimetable(j, sched, s, calendars).shownNext())
}

// shownTimetable is the timetable of a job by its stored state.
func shownTimetable(j *carillon.Job, sched *schedule.Schedule, s *store.State,
	calendars func(namespace, name string) *schedule.Dates) timetable {
	return timetable{job: j, sched: sched, s: s,
		filter: j.Calendars.Filter(func(name string) *schedule.Dates { return calendars(j.Namespace, name) })}
}

// runStatus returns the status of an unfinished run whose job is in the phase.
func runStatus(p carillon.Phase) carillon.RunStatus {
	switch p {
	case carillon.PhaseRunning:
		return carillon.RunRunning
	case carillon.PhaseRetrying:
		return carillon.RunRetrying
	case carillon.PhaseStaged:
		return carillon.RunStaged
	}
	return carillon.RunScheduled
}

// runView returns e's unfinished run.
func (rs *Records) runView(e *entry) carillon.Run {
	r := stateRun(e.ref.Key, &e.state, rs.cfg.Partition)
	r.Status = runStatus(e.phase())
	return r
}

// UnfinishedRun returns the unfinished run of a stored state; ok is false if there is none.
func UnfinishedRun(k carillon.Key, s *store.State, partition int) (r carillon.Run, ok bool) {
	if !s.Run.Live {
		return r, false
	}
	return stateRun(k, s, partition), true
}

// NextRun returns the run that the schedule makes next, by a stored state; ok is false if there is none, and
// while the job is paused. Its Due is a lower bound if the job has jitter and a run is unfinished.
func NextRun(k carillon.Key, s *store.State, partition int) (r carillon.Run, ok bool) {
	if s.Next == 0 || s.Paused {
		return r, false
	}
	id := store.RunID{Partition: uint16(partition), UID: s.UID, Scheduled: s.Next}
	r = carillon.Run{ID: id.String(), Namespace: k.Namespace, Job: k.Name, Scheduled: toTime(s.Next),
		Due: toTime(s.Next)}
	if !s.Run.Live && s.Phase == carillon.PhaseScheduled && s.Due != 0 {
		r.Due = toTime(s.Due)
	}
	return r, true
}

// AllowedRun returns the run that [NextRun] has, or the next one that no calendar of the job excludes; ok is
// false if there is none in sight.
func AllowedRun(j *carillon.Job, s *store.State, partition int,
	calendars func(namespace, name string) *schedule.Dates) (r carillon.Run, ok bool) {
	sched, err := j.ParseSchedule()
	if err != nil || sched == nil {
		return NextRun(j.Key(), s, partition)
	}
	p := shownTimetable(j, sched, s, calendars)
	next := p.shownNext()
	if next == s.Next || next == 0 {
		r, ok = NextRun(j.Key(), s, partition)
		return r, ok && next != 0
	}
	moved := *s
	moved.Next, moved.Due = next, p.due(next)
	return NextRun(j.Key(), &moved, partition)
}

func stateRun(k carillon.Key, s *store.State, partition int) carillon.Run {
	var progress *carillon.Progress
	if s.Run.ReportedAt != 0 {
		progress = &carillon.Progress{Percent: s.Run.Percent, Message: s.Run.Message, At: toTime(s.Run.ReportedAt)}
	}
	return carillon.Run{
		Progress: progress,
		ID:       s.Identity(partition).String(), Namespace: k.Namespace, Job: k.Name, Cause: s.Run.Cause,
		Status: runStatus(s.Phase), Scheduled: toTime(s.Run.Scheduled), Due: toTime(s.Run.Due),
		Attempt: s.Run.Attempt, Started: orTime(s.Run.Started), Errors: s.Run.Errors,
		Backfill: backfillOf(s.Identity(partition)), InDoubt: int(s.Run.InDoubt),
	}
}

// RunOf converts a finished run to what callers see.
func RunOf(r *store.RunRecord) carillon.Run {
	return carillon.Run{
		ID: r.ID.String(), Namespace: r.Key.Namespace, Job: r.Key.Name, Cause: r.ID.Cause, Status: r.Status,
		Scheduled: r.ID.ScheduledTime(), Due: toTime(r.Due), Attempt: r.Attempt, Started: orTime(r.Started),
		Finished: toTime(r.Finished), Errors: r.Errors, Response: r.Response, Worker: r.Worker, Reason: r.Reason,
		Queue:    delivery.ParseQueue(r.Queue).Plain().Address,
		Skipped:  carillon.Skipped{Times: r.Skipped, From: orTime(r.From)},
		Backfill: backfillOf(r.ID), InDoubt: r.InDoubt,
	}
}

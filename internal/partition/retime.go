package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
)

// replans reports whether a put of j in place of old has e's times counted again. A job that a redrive
// brought back has none.
func replans(e *entry, old, j *carillon.Job) bool {
	return retimes(old, j) || rearms(j) || e.state.Anchor == 0
}

// retimes reports whether a put changes when the job runs.
func retimes(a, b *carillon.Job) bool {
	return a.Schedule != b.Schedule || a.TimeZone != b.TimeZone || a.DST != b.DST || a.Due != b.Due || a.TTL != b.TTL || a.Repeats != b.Repeats
}

// rearms reports whether a put always counts from now: that of a one-shot with a relative or absent due time.
func rearms(j *carillon.Job) bool {
	if j.Recurring() {
		return false
	}
	if j.Due.IsZero() {
		return true
	}
	_, relative, err := schedule.ParseTime(j.Due.String(), toTime(0), nil)
	return err == nil && relative
}

// retime handles the unfinished run after a put has changed when the job runs. A one-shot's run goes on only
// if its instant stays the same. A recurring job's run goes on, and its instant does not run again. was is
// the next time before the put; sameDue says that the put has not moved when the job begins.
func (m *Machine) retime(e *entry, j *carillon.Job, now, was int64, sameDue bool) {
	s := &e.state
	if r := &s.Run; !j.Recurring() && r.Live && r.Cause == carillon.CauseSchedule && r.Scheduled == s.Next {
		s.Begun, s.Next = s.Begun+1, 0 // it has no other time
		return
	}
	if past := dealtWith(s, now, was, sameDue); s.Next != 0 && s.Next <= past {
		s.Begun++
		s.Next = m.nextAfter(e, past)
	} else if s.Next != 0 && s.Next <= now && (was == 0 || s.Next < was) && m.mayRun(e, s.Next) {
		s.Begun++
		s.Next = m.nextAfter(e, s.Next)
	}
	if !s.Run.Live {
		return
	}
	switch {
	case s.Next == s.Run.Scheduled && s.Run.Cause == carillon.CauseSchedule:
		s.Begun++
		s.Next = m.nextAfter(e, s.Next)
	case !j.Recurring():
		next := s.Next
		m.revoke(e)
		m.unlist(e)
		m.keepRun(e, now, ending{status: carillon.RunCancelled, reason: ReasonReplaced})
		s.Run, s.Next, s.Phase = store.RunState{}, next, carillon.PhaseScheduled
		e.place = idle
	}
}

// dealtWith returns up to when a job's times have run or been skipped before a put that has planned them
// again. A run at one of them would have the id of an earlier run. If the put has moved when the job begins,
// only the last run is considered.
func dealtWith(s *store.State, now, was int64, sameDue bool) (past int64) {
	if l := &s.Last; l.Finished != 0 && l.Cause == carillon.CauseSchedule && l.Scheduled == s.Next {
		past = l.Scheduled
	}
	switch {
	case !sameDue:
	case was == 0:
		past = max(past, now)
	default:
		past = max(past, min(now, was-1))
	}
	return past
}

// mayRun reports whether a pending run of the job stands for the scheduled time t. If some are not in memory
// that is not known: a recurring job then skips t, and a one-shot, which has no other time, runs.
func (m *Machine) mayRun(job *entry, t int64) bool {
	if int(job.state.Pending) > int(job.children) && m.jobOf(job).Recurring() {
		return true
	}
	for _, e := range m.runsOf(job) {
		if e != job && e.state.Run.Cause == carillon.CauseSchedule && e.state.Run.Scheduled == t {
			return true
		}
	}
	return false
}

// reread finds the next time after an edit that changes which times of the schedule run, but not from when
// they are counted. Times before the edit do not run because of it.
func (m *Machine) reread(e *entry, now int64) {
	s := &e.state
	// The due time of a job of Dapr, which may not be a time of its schedule.
	first := s.Begun == 0 && s.Next == s.Anchor
	if m.scheduleOf(e) == nil || s.Anchor == 0 || (first && e.isDapr()) {
		return
	}
	past := now
	if s.Next != 0 {
		past = min(now, s.Next-1)
	}
	if s.Run.Live && s.Run.Cause == carillon.CauseSchedule {
		past = max(past, s.Run.Scheduled)
	}
	if s.Last.Finished != 0 && s.Last.Cause == carillon.CauseSchedule {
		past = max(past, s.Last.Scheduled)
	}
	s.Next = m.nextAfter(e, max(past, s.Anchor-1))
}

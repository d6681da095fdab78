package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
)

// replans reports whether a put of j in place of old has e's times counted anew. A job that came back for a dead run has none.
func replans(e *entry, old, j *carillon.Job) bool {
	return retimes(old, j) || rearms(j) || e.state.Anchor == 0
}

// retimes reports whether a put changes when the job runs.
func retimes(a, b *carillon.Job) bool {
	return a.Schedule != b.Schedule || a.TimeZone != b.TimeZone || a.DST != b.DST || a.Due != b.Due || a.TTL != b.TTL || a.Repeats != b.Repeats
}

// rearms reports whether a put counts from now whatever was there before: a one-shot with a relative or absent due time.
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

// retime sees to the unfinished run after a put has changed when the job runs. A one-shot's goes on only if it keeps its
// instant; a recurring job's goes on, and its instant is not run again. was is what came next before the put;
// sameDue says that the put has not moved when the job begins.
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

// dealtWith is up to when a job's times have been run or passed over before a put that has planned it anew: a run of one of
// them would have the id of another. If the put has moved when the job begins, only the last run is known of.
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

// mayRun reports whether a pending run of the job stands for the scheduled time t; of those that are not in memory it is
// not known. A one-shot has no other time, so it runs in case of doubt.
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

// reread finds the next time after an edit that changes which times of the schedule run, but not from when they are counted. A
// time that came before the edit is not run for it.
func (m *Machine) reread(e *entry, now int64) {
	s := &e.state
	first := s.Begun == 0 && s.Next == s.Anchor // the due time of a job of Dapr, which need not be a time of the schedule
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

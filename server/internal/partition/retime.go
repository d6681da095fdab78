package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/store"
)

// replans reports whether a put of j in place of old has e's times counted again. A job that a redrive
// brought back has none.
func replans(e *entry, old, j *carillon.Job) bool {
	return retimes(old, j) || rearms(j) || e.state.Anchor == 0
}

// retimes reports whether a put changes when the job runs.
func retimes(a, b *carillon.Job) bool {
	return a.Schedule != b.Schedule || a.TimeZone != b.TimeZone || a.Calendars.DST != b.Calendars.DST ||
		a.Due != b.Due || a.TTL != b.TTL || a.Repeats != b.Repeats
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
// if its instant stays the same; ends says that it does not. A recurring job's run goes on, and its instant
// does not run again. was is the next time before the put; sameDue says that the put has not moved when the
// job begins; mayRun says whether a pending run stands for a time.
func (p timetable) retime(now, was int64, sameDue bool, mayRun func(t int64) bool) (ends bool) {
	s, r := p.s, &p.s.Run
	own := r.Live && r.Cause == carillon.CauseSchedule
	if own && !p.job.Recurring() && r.Scheduled == s.Next {
		s.Begun, s.Next = s.Begun+1, 0 // it has no other time
		return false
	}
	if past := dealtWith(s, now, was, sameDue); s.Next != 0 && s.Next <= past {
		p.begin(past)
	} else if s.Next != 0 && s.Next <= now && (was == 0 || s.Next < was) && mayRun(s.Next) {
		p.begin(s.Next)
	}
	if own && s.Next == r.Scheduled {
		p.begin(s.Next)
		return false
	}
	return r.Live && !p.job.Recurring()
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

// reread finds the next time after an edit that changes which times of the schedule run, but not from when
// they are counted. Times before the edit do not run because of it.
func (p timetable) reread(now int64) {
	s := p.s
	first := s.Begun == 0 && s.Next == s.Anchor
	if p.sched == nil || s.Anchor == 0 || (first && traitsOf(p.job.Target.Kind()).dueRunsFirst) {
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
	s.Next = p.next(max(past, s.Anchor-1))
}

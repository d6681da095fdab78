package checker

import (
	"slices"
	"time"
)

// excludedRules are about times of schedules that calendars exclude: S19.
type excludedRules struct{ *check }

// excludes reports whether a calendar of the job excludes a time of its schedule.
func (s *Job) excludes(t time.Time) bool {
	return slices.ContainsFunc(s.Off, func(off Stretch) bool { return !t.Before(off.From) && t.Before(off.To) })
}

// none: S19, no run of the schedule is one of a time that calendars exclude, whatever definition it is of.
func (c excludedRules) none(j *job) {
	for _, r := range j.runs {
		a := r.first()
		out := func(s *Job) bool { return s.excludes(a.Scheduled) }
		runs := func(s *Job) bool { return !s.excludes(a.Scheduled) }
		if a.Cause == CauseSchedule && c.hadRule(j, a.Scheduled, a.At, out) &&
			!c.hadRule(j, a.Scheduled, a.At, runs) {
			c.addf("S19", j.String(), "the time %s ran, and its calendars exclude it", c.show(a.Scheduled))
		}
	}
}

// had reports whether some definition of the job excludes the first and the last time of a record. A skip
// passes over times that are to come.
func (c excludedRules) had(j *job, r FinalRun, from, lo, hi time.Time) bool {
	return c.hadRule(j, earlier(lo, r.Finished), hi,
		func(s *Job) bool { return s.excludes(from) && s.excludes(r.Scheduled) })
}

// told is those of some times of a definition that a record tells of: those that calendars exclude have
// records of their own.
func (s *Job) told(times []time.Time, reason string) []time.Time {
	if len(s.Off) == 0 {
		return times
	}
	return slices.DeleteFunc(times, func(t time.Time) bool { return s.excludes(t) != (reason == "calendar") })
}

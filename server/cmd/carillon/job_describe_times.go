package main

import (
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/schedule"
)

// nextTimes are the next times of a job that recurs: the one that is stored, and those that follow from it.
// Where the answers of the API leave open how many there are, it returns those that are certain.
func nextTimes(j *carillon.Job, s *schedule.Schedule, calendars []carillon.Calendar) []time.Time {
	next := statusOf(j).NextRun
	if j.Paused || next.IsZero() {
		return nil
	}
	filter := filterBy(j.Calendars, calendars)
	anchor, expires := lifeOf(j, s)
	times := []time.Time{next}
	for most := timesLeft(j, s, anchor); len(times) < most; {
		var more bool
		if next, more = filter.Next(s, next, anchor); !more || !expires.IsZero() && next.After(expires) {
			break
		}
		times = append(times, next)
	}
	return times
}

// filterBy returns what leaves out times by the rules, as far as there are the calendars.
func filterBy(rules carillon.CalendarRules, calendars []carillon.Calendar) *schedule.Filter {
	return rules.Filter(func(name string) *schedule.Dates {
		for i := range calendars {
			if calendars[i].Name == name {
				dates, _ := calendars[i].Parse() // nil, as of one that there is not
				return dates
			}
		}
		return nil
	})
}

// leftOut says which calendars leave out the time of a job that would be next.
func leftOut(j *carillon.Job, calendars []carillon.Calendar, now time.Time) string {
	s, err := j.ParseSchedule()
	next := statusOf(j).NextRun
	if err != nil || s == nil || j.Paused {
		return ""
	}
	anchor, _ := lifeOf(j, s)
	t, ok := s.Next(now, anchor)
	if !ok || !next.IsZero() && !t.Before(next) || !filterBy(j.Calendars, calendars).Excludes(t) {
		return ""
	}
	var by []string
	for _, name := range j.Calendars.Except {
		if filterBy(carillon.CalendarRules{Except: []string{name}}, calendars).Excludes(t) {
			by = append(by, name)
		}
	}
	why := "in " + strings.Join(by, ", ")
	if len(by) == 0 {
		why = "not in " + strings.Join(j.Calendars.Only, ", ")
	}
	return localAndAgo(t, now) + " is " + why
}

// lifeOf returns what a job's times are counted from, and when its life ends. It began with the put that made
// the job or with a later one, which may have been the last; if neither leads to the time that is stored, it
// is counted from that, and a life that ends is taken to end then.
func lifeOf(j *carillon.Job, s *schedule.Schedule) (anchor, expires time.Time) {
	next := statusOf(j).NextRun
	if next.IsZero() {
		anchor, expires, _ = j.Life(statusOf(j).Created) // the node has resolved it
		return anchor, expires
	}
	for _, put := range []time.Time{statusOf(j).Created, statusOf(j).Updated} {
		anchor, expires, err := j.Life(put)
		if err != nil || !expires.IsZero() && next.After(expires) {
			continue
		}
		if t, ok := s.Next(next.Add(-1), anchor); ok && t.Equal(next) {
			return anchor, expires
		}
	}
	if !j.TTL.IsZero() {
		expires = next
	}
	return next, expires
}

// timesLeft returns how many times to show: no more than the job may still begin. How often its schedule has
// begun one is not in the API: not more often than runs were made, by whatever, nor than it had times.
func timesLeft(j *carillon.Job, s *schedule.Schedule, anchor time.Time) int {
	limit := plan.EffectiveRepeats(j, s)
	if limit == 0 {
		return describedTimes
	}
	status := statusOf(j)
	begun := status.Counters.Fired + unbegun(status.Current)
	for i := range status.Pending {
		begun += unbegun(&status.Pending[i])
	}
	if anchor.Before(status.NextRun) {
		first := anchor // without a due time, the first is after the put
		if !j.Due.IsZero() {
			first = first.Add(-1)
		}
		times := s.Count(first, status.NextRun.Add(-1), anchor, countedAtMost)
		if times < countedAtMost { // otherwise it had at least as many
			begun = min(begun, uint64(times))
		}
	}
	return int(min(describedTimes, max(1, limit-min(limit, begun))))
}

// unbegun counts a run that has had no attempt, which the counters do not.
func unbegun(r *carillon.Run) uint64 {
	if r != nil && r.Attempt == 0 {
		return 1
	}
	return 0
}

package partition

import (
	"fmt"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/store"
)

// Upcoming finds the next times of a job. It plays them on a copy of the job's state, with the same timetable
// that runs the job, as if each run ended before the next one is due. It needs nothing of the machine, so it
// is used outside of it: a thousand times would keep others waiting.
type Upcoming struct {
	timetable timetable // with a state of its own
	calendars func(namespace, name string) *schedule.Dates
}

// Upcoming returns what finds the next times of a job as it is now.
func (js *Jobs) Upcoming(key carillon.Key) (Upcoming, error) {
	e := js.records.find(key)
	if e == nil {
		return Upcoming{}, notFound(key)
	}
	return Upcoming{js.contents.timetableOf(e).apart(), js.cfg.Calendars}, nil
}

// StoredUpcoming is [Jobs.Upcoming] by a stored state, of a partition that nobody owns now: what its next
// owner finds due from before may be missed.
func StoredUpcoming(j *carillon.Job, s *store.State, now int64,
	calendars func(namespace, name string) *schedule.Dates) Upcoming {
	sched, err := j.ParseSchedule()
	if err != nil {
		sched = nil // as in the machine; end says so
	}
	t := shownTimetable(j, sched, s, calendars).apart()
	t.since = now
	return Upcoming{t, calendars}
}

// apart returns the timetable with a state of its own.
func (p timetable) apart() timetable {
	s := *p.s
	p.s = &s
	return p
}

// Times returns the next times that are asked for, as of now.
func (u Upcoming) Times(now int64, q carillon.TimesQuery) carillon.Timetable {
	p := u.timetable.apart() // so that it can be asked again
	var t carillon.Timetable
	before, last := toTime(now), int64(0)
	for {
		next, end := p.take(now, last)
		if end != nil {
			t.End = end
			break
		}
		if len(t.Times) == q.Most() || !q.Until.IsZero() && next >= q.Until.UnixNano() {
			break
		}
		t.Times = append(t.Times, p.planned(next, now, before))
		before, last = toTime(next), next
	}
	t.Excluded = u.excluded(now, t.Times)
	return t
}

// take moves the job on past its next run, and returns the scheduled time of that one; or why there is none.
// last is the time that was taken before it, or 0.
func (p timetable) take(now, last int64) (next int64, end *carillon.TimesEnd) {
	s := p.s
	for {
		switch {
		case s.Next == 0 || s.Paused || p.unreadable():
			return 0, p.end(now, last)
		case p.sched == nil:
			next, s.Begun, s.Next = s.Next, s.Begun+1, 0
			return next, nil
		case p.excludes(s.Next):
			shown := p.shownNext()
			if shown == 0 {
				return 0, p.end(now, last)
			}
			s.Next = shown
		case p.skippedByOverlap(now):
			last = p.skipDue(now, ReasonOverlap).upTo()
			s.Next = p.next(last)
		default:
			c := p.choose(max(now, p.due(s.Next)))
			if c.run != 0 {
				p.begin(c.run)
				return c.run, nil
			}
			last = c.skip.upTo()
			s.Next = p.next(last)
		}
	}
}

// unreadable reports whether the schedule can no longer be parsed, which is found when a time is due.
func (p timetable) unreadable() bool { return p.sched == nil && p.job.Recurring() }

// skippedByOverlap reports whether the next time has come during the job's unfinished run, and does not run.
func (p timetable) skippedByOverlap(now int64) bool {
	return p.s.Run.Live && p.job.Overlap == carillon.OverlapSkip && p.due(p.s.Next) <= now
}

// upTo returns the last of the times; 0 if there is none.
func (sk skipped) upTo() int64 { return max(sk.last, sk.excluded.last) }

// planned is a time as callers see it; before is the one before it, or now.
func (p timetable) planned(t, now int64, before time.Time) carillon.PlannedTime {
	due, zone := p.due(t), p.job.Location()
	offset := offsetOf(toTime(t), zone)
	return carillon.PlannedTime{Scheduled: toTime(t), Due: toTime(due), Past: due <= now, Offset: offset,
		Shift: offset - offsetOf(before, zone)}
}

func offsetOf(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// end says why the job has no time after the last one, that began or was skipped; 0: it is not known.
func (p timetable) end(now, last int64) *carillon.TimesEnd {
	end := func(code, format string, args ...any) *carillon.TimesEnd {
		return &carillon.TimesEnd{Code: code, Text: fmt.Sprintf(format, args...)}
	}
	s := p.s
	ttl := func(after time.Time, ok bool) bool {
		return s.Expires != 0 && ok && after.UnixNano() > s.Expires
	}
	anchor := toTime(s.Anchor)
	switch {
	case s.Paused:
		return end(carillon.EndPaused, "The job is paused: it begins nothing until it is resumed.")
	case p.unreadable():
		return end(carillon.EndUnreadable, "This node cannot read the job's schedule.")
	case p.sched == nil:
		return end(carillon.EndOnce, "The job runs once.")
	case s.Next != 0:
		if ttl(p.filter.Next(p.sched, toTime(s.Next), anchor)) {
			return end(carillon.EndTTL, "The job's life ends at %s.", clock(s.Expires))
		}
		return end(carillon.EndCalendars, "Calendars leave out all later times that are in sight.")
	case p.spent():
		return end(carillon.EndRepeats, "The job repeats %d times at most.",
			plan.EffectiveRepeats(p.job, p.sched))
	}
	if last == 0 {
		last = p.lastTime(now)
	}
	next, ok := p.sched.Next(toTime(last), anchor)
	switch {
	case !ok || !carillon.Storable(next):
		return end(carillon.EndSchedule, "The schedule has no later time.")
	case ttl(next, ok):
		return end(carillon.EndTTL, "The job's life ends at %s.", clock(s.Expires))
	}
	return end(carillon.EndDone, "The job begins no more runs.")
}

// lastTime returns the last scheduled time of a job that has no next one, as far as its state tells.
func (p timetable) lastTime(now int64) int64 {
	switch s := p.s; {
	case s.Run.Live && s.Run.Cause == carillon.CauseSchedule:
		return s.Run.Scheduled
	case s.Last.Finished != 0 && s.Last.Cause == carillon.CauseSchedule:
		return s.Last.Scheduled
	}
	return now
}

// excluded returns the next time of the schedule from now on, if calendars leave it out and it comes before
// the times that run.
func (u Upcoming) excluded(now int64, times []carillon.PlannedTime) *carillon.ExcludedTime {
	p, s := u.timetable, u.timetable.s
	if p.sched == nil || p.filter == nil || s.Paused || s.Next == 0 {
		return nil
	}
	t, ok := p.sched.Next(toTime(max(now, s.Anchor-1)), toTime(s.Anchor))
	if !ok || !carillon.Storable(t) || s.Expires != 0 && t.UnixNano() > s.Expires ||
		len(times) > 0 && !t.Before(times[0].Scheduled) || !p.filter.Excludes(t) {
		return nil
	}
	by := &carillon.ExcludedTime{At: t}
	for _, name := range p.job.Calendars.Except {
		d := u.calendars(p.job.Namespace, name)
		if d != nil && (&schedule.Filter{Except: []*schedule.Dates{d}}).Excludes(t) {
			by.By = append(by.By, name)
		}
	}
	return by
}

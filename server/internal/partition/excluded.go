package partition

import (
	"time"

	"github.com/carillonhq/carillon"
)

// Calendars exclude times of a schedule (carillon.CalendarRules). Whether one does is asked when a time is
// due, not when it is planned: a calendar may be put at any moment, and the jobs that name it, most of which
// are not in memory, are not touched. So State.Next may be a time that is excluded. When it is due, the job
// passes over the whole stretch that is excluded, in one step that leaves one history record. It looks at
// most passAhead into the future for that, so that a date that is taken out of a calendar counts again within
// that time. A run that has begun is never taken back, and a run by trigger is none of the schedule.

// passAhead is how far into the future a job passes over excluded times in one step.
const passAhead = time.Hour

// excludes reports whether a calendar excludes the scheduled time t.
func (p timetable) excludes(t int64) bool {
	return p.filter != nil && p.sched != nil && p.filter.Excludes(toTime(t))
}

// passOver returns the stretch of excluded times from Next on, which must be excluded and due.
func (p timetable) passOver(now int64) skipped {
	first := p.s.Next
	last, most := first, max(first, now)+int64(passAhead)
	if p.s.Expires != 0 {
		most = min(most, p.s.Expires)
	}
	for {
		out, _, until := p.filter.Around(toTime(last))
		if !out {
			break
		}
		end := most
		if !until.IsZero() {
			end = min(most, until.UnixNano()-1)
		}
		newest, ok := p.sched.Last(toTime(end), toTime(p.s.Anchor))
		if !ok || newest.UnixNano() < last {
			break
		}
		last = newest.UnixNano()
		next, ok := p.sched.Next(newest, toTime(p.s.Anchor))
		if end == most || !ok || next.UnixNano() > most || !p.filter.Excludes(next) {
			break
		}
		last = next.UnixNano()
	}
	passed := p.count(first, last)
	passed.n = max(passed.n, 1) // a job of Dapr may begin at a time that its schedule does not have
	return skipped{excluded: passed}
}

// skipApart is skip for a job with calendars.
func (p timetable) skipApart(first, last int64, reason string) skipped {
	sk, anchor := skipped{reason: reason}, toTime(p.s.Anchor)
	t, ok := p.sched.Next(toTime(first-1), anchor)
	for ok && t.UnixNano() <= last {
		out, _, until := p.filter.Around(t)
		end := last
		if !until.IsZero() {
			end = min(last, until.UnixNano()-1)
		}
		newest, _ := p.sched.Last(toTime(end), anchor) // t at least
		if some := p.count(t.UnixNano(), newest.UnixNano()); out {
			sk.excluded.add(some)
		} else {
			sk.times.add(some)
		}
		t, ok = p.sched.Next(newest, anchor)
	}
	if sk.times.last < last && sk.excluded.last < last {
		sk.times.last = last // it is no time of the schedule, but Next goes on after it
	}
	return sk
}

// add adds times that come after those of t.
func (t *times) add(o times) {
	if t.n == 0 {
		t.first = o.first
	}
	t.last, t.n = o.last, min(t.n+o.n, countLimit)
}

// shownNext returns the next scheduled time that no calendar excludes as they are now; 0 if there is none in
// sight.
func (p timetable) shownNext() int64 {
	next := p.s.Next
	if next == 0 || !p.excludes(next) {
		return next
	}
	t, ok := p.filter.Next(p.sched, toTime(next), toTime(p.s.Anchor))
	if !ok || !carillon.Storable(t) || p.s.Expires != 0 && t.UnixNano() > p.s.Expires {
		return 0
	}
	return t.UnixNano()
}

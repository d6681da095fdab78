package partition

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/store"
)

// timetable says when a job runs. It follows from the job's spec and state alone: misfire.go decides about
// times that have come, retime.go about times after an edit, repeats.go about how many are left. Methods that
// move the job on change the state and nothing else.
type timetable struct {
	job    *carillon.Job
	sched  *schedule.Schedule // nil: a one-shot, or the schedule can no longer be parsed
	filter *schedule.Filter   // which times calendars exclude now; nil: none
	s      *store.State

	since int64 // the partition has been owned without a gap from then on
}

// timetableOf returns the timetable of a job whose spec is in memory.
func (c *contents) timetableOf(e *entry) timetable {
	return timetable{e.job(), c.scheduleOf(e), c.filterOf(e.job()), &e.state, c.cfg.Since}
}

// first sets when a new job first runs, as of now. That has a rule of its own (internal/plan/first.go): a due
// time that is over fires once, at once. The anchor is the time from which an interval or repeat is counted.
func (p timetable) first(now int64) error {
	anchor, next, expires, err := plan.FirstRun(p.job, p.sched, toTime(now))
	if err != nil {
		return err
	}
	p.s.Anchor, p.s.Next, p.s.Expires, p.s.Begun = fromTime(anchor), fromTime(next), fromTime(expires), 0
	return nil
}

// next returns the schedule's first time after t; 0 if there is none within the job's life and repeats.
func (p timetable) next(t int64) int64 {
	if p.sched == nil || p.spent() {
		return 0
	}
	next, ok := p.sched.Next(toTime(t), toTime(p.s.Anchor))
	if !ok || !carillon.Storable(next) || (p.s.Expires != 0 && next.UnixNano() > p.s.Expires) {
		return 0
	}
	return next.UnixNano()
}

// begin moves the job on because the run of the scheduled time t begins.
func (p timetable) begin(t int64) {
	p.s.Begun++
	p.s.Next = p.next(t)
}

// due returns when the run of the scheduled time t is due.
func (p timetable) due(t int64) int64 { return t + p.jitter(t) }

// jitter returns how much later than t the run is due. It is a function of the job and t, lies in [0,
// Job.Jitter), and ends before the next scheduled time.
func (p timetable) jitter(t int64) int64 {
	if p.s.Jitter == 0 || t == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(p.s.UID[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(t)))
	by := int64(h.Sum64() % uint64(p.s.Jitter))
	if p.sched != nil {
		if next, ok := p.sched.Next(toTime(t), toTime(p.s.Anchor)); ok && carillon.Storable(next) {
			by = min(by, next.UnixNano()-t-1)
		}
	}
	return by
}

// newestDue returns the latest scheduled time that is due at now and that no calendar excludes. It is Next,
// which must be due, if there is no later one.
func (p timetable) newestDue(now int64) int64 {
	until := now
	if p.s.Expires != 0 {
		until = min(until, p.s.Expires)
	}
	anchor := toTime(p.s.Anchor)
	t, ok := p.filter.Last(p.sched, toTime(until), anchor)
	if ok && p.s.Jitter != 0 && p.due(t.UnixNano()) > now {
		t, ok = p.filter.Last(p.sched, t.Add(-1), anchor)
	}
	if !ok || t.UnixNano() < p.s.Next {
		return p.s.Next
	}
	return t.UnixNano()
}

// prior returns the scheduled time before t.
func (p timetable) prior(t int64) int64 {
	prior, ok := p.sched.Last(toTime(t-1), toTime(p.s.Anchor))
	if !ok {
		return t - 1
	}
	return prior.UnixNano()
}

// isTime reports whether t is one of the schedule's times.
func (p timetable) isTime(t int64) bool {
	next, ok := p.sched.Next(toTime(t-1), toTime(p.s.Anchor))
	return ok && next.UnixNano() == t
}

// skipped are scheduled times that do not run. The zero value has none.
type skipped struct {
	times
	reason   string
	excluded times // by calendars, whatever the reason of the others
}

// times are scheduled times from first to last.
type times struct {
	first, last int64
	n           uint64 // how many; at most countLimit are counted
}

// countLimit bounds how many skipped times are counted. A record of more says this many.
const countLimit = 10_000

// skip returns the scheduled times from first to last as skipped. Those that calendars exclude are told
// apart.
func (p timetable) skip(first, last int64, reason string) skipped {
	if p.filter != nil {
		return p.skipApart(first, last, reason)
	}
	return skipped{times: p.count(first, last), reason: reason}
}

// count returns the scheduled times from first to last.
func (p timetable) count(first, last int64) times {
	n := p.sched.Count(toTime(first-1), toTime(last), toTime(p.s.Anchor), countLimit)
	return times{first, last, uint64(n)}
}

// skipDue returns the times that are due at now as skipped. Next must be due.
func (p timetable) skipDue(now int64, reason string) skipped {
	return p.skip(p.s.Next, p.newestDue(now), reason)
}

// skipLife returns the times up to the end of the job's life as skipped.
func (p timetable) skipLife(reason string) skipped {
	next := p.s.Next
	switch {
	case next == 0 || next > p.s.Expires:
		return skipped{}
	case p.sched == nil:
		return skipped{times: times{next, next, 1}, reason: reason}
	}
	last, ok := p.sched.Last(toTime(p.s.Expires), toTime(p.s.Anchor))
	if !ok || last.UnixNano() < next {
		return skipped{}
	}
	return p.skip(next, last.UnixNano(), reason)
}

// wentOn reports whether a scheduled time after that of the job's run has already begun or been skipped.
// beside says whether a run of a later time goes on beside it. A time of an earlier schedule counts as before
// all times of the present one.
func (p timetable) wentOn(beside bool) bool {
	s := p.s
	switch {
	case p.sched == nil:
		return false
	case !p.isTime(s.Run.Scheduled):
		return true
	case s.Next == 0:
		return (s.Last.Cause == carillon.CauseSchedule && s.Last.Scheduled > s.Run.Scheduled) || beside
	}
	next, ok := p.sched.Next(toTime(s.Run.Scheduled), toTime(s.Anchor))
	return !ok || next.UnixNano() != s.Next
}

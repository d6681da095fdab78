package partition

import (
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// A job without an unfinished run may find several scheduled times due: it was not fired in time, or its run
// took longer than its period. choose decides which of them runs; a history record says which do not. A lone
// due time simply runs unless it was missed, that is, unless it is late because nobody owned the partition.
// Otherwise misfire applies the job's rule, to the times from Next to the newest:
//
//	MisfireLatest  the newest runs; the times before it are skipped
//	(default)
//	MisfireAll     each runs in order, the newest Misfire.Limit of them; the others are skipped. Beside
//	               OverlapReplace it is MisfireLatest: each run would end the one before
//	MisfireSkip    none runs if the newest was missed too; otherwise the newest, as under MisfireLatest
//
// Times that calendars exclude are no part of this (excluded.go).
//
// Under every rule nothing runs if all times are older than Misfire.Window. Times that came while the job was
// paused are skipped on resume (pause.go), unless the caller asks to catch up: then catchUp applies the rule.
// Times that came while the previous run was unfinished depend on the overlap rule first (overlap.go).

// Reasons why a scheduled time did not run, or a run ended without an attempt.
const (
	ReasonCalendar = "calendar" // a calendar excludes it
	ReasonMisfire  = "misfire"  // nobody could fire it in time, and the misfire rule skips it
	ReasonOverlap  = "overlap"  // the previous run was unfinished
	ReasonPaused   = "paused"   // the job was paused
	ReasonExpired  = "expired"  // the job's life ended first
	ReasonDeleted  = "deleted"  // the job was deleted
	ReasonReplaced = "replaced" // a put gave the job another time, or replaced the job
	ReasonSkipped  = "skipped"  // a caller skipped it
	ReasonPurged   = "purged"   // its queue was purged
	ReasonSchedule = "schedule" // a backfill's schedule can no longer be parsed
)

// choice is what becomes of the scheduled times that are due.
type choice struct {
	run  int64 // the time to run now; 0: none
	skip skipped
}

// choose decides which of the due times of a job without an unfinished run is run now. Next must be due.
// One-shots never misfire.
func (p timetable) choose(now int64) choice {
	if p.sched == nil {
		return choice{run: p.s.Next}
	}
	if p.excludes(p.s.Next) {
		return choice{skip: p.passOver(now)}
	}
	if newest := p.newestDue(now); newest != p.s.Next || p.missed(newest, now) {
		return p.misfire(newest, now)
	}
	return choice{run: p.s.Next}
}

// misfireAfter is how late a time that nobody owned must be to be missed.
const misfireAfter = 5 * time.Second

// missed reports whether a time is too late because nobody owned the partition when it was due. A time that
// was already past when the job was put is not missed: a put never creates misfires.
func (p timetable) missed(t, now int64) bool {
	due := p.due(t)
	return t > p.s.Updated && due < p.since && now-due > int64(misfireAfter)
}

// misfire applies the misfire rule to the due times from Next to newest.
func (p timetable) misfire(newest, now int64) choice {
	first := p.s.Next
	from := p.withinWindow(first, now)
	if from == 0 || from > newest {
		return choice{skip: p.skip(first, newest, ReasonMisfire)}
	}
	switch p.job.Misfire.Rule {
	case carillon.MisfireAll:
		if p.job.Overlap == carillon.OverlapReplace {
			return p.only(newest, ReasonOverlap)
		}
		return p.only(max(first, p.withinLimit(from, newest)), ReasonMisfire)
	case carillon.MisfireSkip:
		if p.missed(newest, now) {
			return choice{skip: p.skip(first, newest, ReasonMisfire)}
		}
	case carillon.MisfireLatest:
	}
	return p.only(newest, ReasonMisfire)
}

// only runs the due time t and skips those before it.
func (p timetable) only(t int64, reason string) choice {
	if t == p.s.Next {
		return choice{run: t}
	}
	return choice{t, p.skip(p.s.Next, p.prior(t), reason)}
}

// catchUp applies the misfire rule, on resume, to the times that came while the job was paused. A time that
// remains becomes Next and begins like any other.
func (p timetable) catchUp(now int64) skipped {
	if p.job.Misfire.Rule == carillon.MisfireSkip {
		return p.skipDue(now, ReasonMisfire)
	}
	return p.misfire(p.newestDue(now), now).skip
}

// withinWindow returns the first due time that Misfire.Window still allows to run, 0 if there is none.
func (p timetable) withinWindow(first, now int64) int64 {
	window := int64(p.job.Misfire.Window)
	if window == 0 || first >= now-window {
		return first
	}
	t, ok := p.filter.Next(p.sched, toTime(now-window-1), toTime(p.s.Anchor))
	if !ok {
		return 0
	}
	return t.UnixNano()
}

// withinLimit returns the first time from which at most Misfire.Limit times are due until newest.
func (p timetable) withinLimit(from, newest int64) int64 {
	limit, anchor := p.job.CatchUpLimitOrDefault(), toTime(p.s.Anchor)
	if p.filter.Count(p.sched, toTime(from-1), toTime(newest), anchor, limit+1) <= limit {
		return from
	}
	low, high := from, newest // more than limit times from low on, at most limit from high on
	for high-low > 1 {
		mid := low + (high-low)/2
		if p.filter.Count(p.sched, toTime(mid-1), toTime(newest), anchor, limit+1) > limit {
			low = mid
		} else {
			high = mid
		}
	}
	t, ok := p.filter.Next(p.sched, toTime(high-1), anchor)
	if !ok {
		return newest
	}
	return t.UnixNano()
}

// choose returns the due time that e is to run now, and records those that it skips; see the top of the
// file. It returns 0 if none runs, and then Next has moved on.
func (rs *runs) choose(e *entry, now int64) int64 {
	c := rs.contents.timetableOf(e).choose(now)
	rs.skipTimes(e, c.skip, now)
	return c.run
}

// skipTimes records that scheduled times do not run, and moves Next past them.
func (rs *runs) skipTimes(e *entry, sk skipped, now int64) {
	if sk == (skipped{}) {
		return
	}
	rs.due.touch(e) // or the same times would be skipped again after a crash
	e.state.Next = rs.contents.timetableOf(e).next(max(sk.last, sk.excluded.last))
	rs.recordSkipped(e, sk.times, sk.reason, now)
	rs.recordSkipped(e, sk.excluded, ReasonCalendar, now)
}

// recordSkipped counts scheduled times that do not run, and writes one history record about them.
func (rs *runs) recordSkipped(e *entry, t times, reason string, now int64) {
	if t.n == 0 {
		return
	}
	e.state.Counters.Skipped += t.n
	r := store.RunRecord{
		Key:    e.ref.Key,
		ID:     store.RunID{Partition: uint16(rs.cfg.Partition), UID: e.state.UID, Scheduled: t.last},
		Status: carillon.RunSkipped, Reason: reason, Skipped: t.n, From: t.first, Due: t.last, Finished: now,
	}
	rs.out.events.tellRun(now, &r, e.state.Generation, 0)
	rs.history.add(e.job(), &e.state, r)
	if rs.cfg.Events.Skipped != nil {
		rs.cfg.Events.Skipped(reason, t.n)
	}
}

// skipLife records that the scheduled times up to the end of the job's life do not run, and leaves the job
// without a next time.
func (rs *runs) skipLife(e *entry, now int64, reason string) {
	rs.skipTimes(e, rs.contents.timetableOf(e).skipLife(reason), now)
	e.state.Next = 0
}

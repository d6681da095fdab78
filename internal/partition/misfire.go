package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/store"
)

// A job without an unfinished run may find several scheduled times due: it was not fired in time, or its run
// took longer than its period. choose decides which of them runs and leaves one history record of those that
// do not. A lone due time simply runs unless it was missed, that is, unless it is late because nobody owned
// the partition. Otherwise the job's misfire rule applies, to the times from first to
// newest:
//
//	rule           what runs                                              handled by
//	MisfireLatest  the newest; the times before it are skipped            makeUp, after its switch
//	(default)
//	MisfireAll     each in order, the newest CatchUpLimit of them;        makeUp, second case; withinLimit
//	               the others are skipped. Beside OverlapReplace it is
//	               MisfireLatest: each run would end the one before
//	MisfireSkip    none if the newest was missed too; otherwise the       makeUp, first case; missed
//	               newest, as under MisfireLatest
//
// Under every rule nothing runs if all times are older than CatchUpWindow (withinWindow). Times that came
// while the job was paused are skipped on resume (changePaused), unless the caller asks to catch up: then
// catchUp applies the rule. Times that came while the previous run was unfinished depend on the overlap rule
// first; see the table in overlap.go.

// Reasons why a scheduled time did not run, or a run ended without an attempt.
const (
	ReasonMisfire  = "misfire"  // nobody could fire it in time, and the misfire rule skips it
	ReasonOverlap  = "overlap"  // the previous run was unfinished
	ReasonPaused   = "paused"   // the job was paused
	ReasonExpired  = "expired"  // the job's life ended first
	ReasonDeleted  = "deleted"  // the job was deleted
	ReasonReplaced = "replaced" // a put gave the job another time, or replaced the job
	ReasonSkipped  = "skipped"  // a caller skipped it
	ReasonSchedule = "schedule" // a backfill's schedule can no longer be parsed
)

// countLimit bounds how many skipped times are counted. A record of more says this many.
const countLimit = 10_000

// choose returns the scheduled time that a job without an unfinished run is to run now, and leaves a record
// of those that it skips; see the table above. It returns 0 if none runs, and then Next has moved on.
// One-shots never misfire.
func (m *Machine) choose(e *entry, now int64) int64 {
	s := m.scheduleOf(e)
	first := e.state.Next
	if s == nil {
		return first
	}
	newest := m.newestDue(e, s, first, now)
	if newest == first {
		if !m.missed(e, first, now) {
			return first
		}
		return m.makeUp(e, s, first, first, now)
	}
	return m.makeUp(e, s, first, newest, now)
}

// newestDue returns the latest scheduled time that is due at now. It is first, which must be due, if there is
// no later one.
func (m *Machine) newestDue(e *entry, s *schedule.Schedule, first, now int64) int64 {
	until := now
	if e.state.Expires != 0 {
		until = min(until, e.state.Expires)
	}
	anchor := toTime(e.state.Anchor)
	t, ok := s.Last(toTime(until), anchor)
	if ok && e.state.Jitter != 0 && t.UnixNano()+m.jitter(e, t.UnixNano()) > now {
		t, ok = s.Last(t.Add(-1), anchor)
	}
	if !ok || t.UnixNano() < first {
		return first
	}
	return t.UnixNano()
}

// missed reports whether a time is too late because nobody owned the partition when it was due. A time that
// was already past when the job was put is not missed: a put never creates misfires.
func (m *Machine) missed(e *entry, t, now int64) bool {
	due := t + m.jitter(e, t)
	return t > e.state.Updated && due < m.cfg.Since && now-due > int64(m.cfg.MisfireAfter)
}

// makeUp applies the misfire rule to the due times from first to newest. It returns the time to run now, 0 if
// none.
func (m *Machine) makeUp(e *entry, s *schedule.Schedule, first, newest, now int64) int64 {
	j := m.jobOf(e)
	from := m.withinWindow(e, s, first, now)
	switch {
	case j.Misfire == carillon.MisfireSkip && m.missed(e, newest, now), from == 0 || from > newest:
		return m.passOver(e, s, first, newest, now, ReasonMisfire)
	case j.Misfire == carillon.MisfireAll && j.Overlap != carillon.OverlapReplace:
		if start := m.withinLimit(e, s, from, newest); start > first {
			m.passOver(e, s, first, prior(e, s, start), now, ReasonMisfire)
			return start
		}
		return first
	}
	if newest > first {
		reason := ReasonMisfire
		if j.Misfire == carillon.MisfireAll { // each run would be replaced by the next at once
			reason = ReasonOverlap
		}
		m.passOver(e, s, first, prior(e, s, newest), now, reason)
	}
	return newest
}

// catchUp applies the misfire rule, on resume, to the times that came while the job was paused. It only moves
// Next: a run that remains begins like any other.
func (m *Machine) catchUp(e *entry, s *schedule.Schedule, now int64) {
	first := e.state.Next
	newest := m.newestDue(e, s, first, now)
	if m.jobOf(e).Misfire == carillon.MisfireSkip {
		m.passOver(e, s, first, newest, now, ReasonMisfire)
		return
	}
	m.makeUp(e, s, first, newest, now)
}

// passLife records that the scheduled times up to the end of the job's life do not run, and leaves the job
// without a next time.
func (m *Machine) passLife(e *entry, now int64, reason string) {
	next := e.state.Next
	if next == 0 || next > e.state.Expires {
		e.state.Next = 0
		return
	}
	if s := m.scheduleOf(e); s != nil {
		last, ok := s.Last(toTime(e.state.Expires), toTime(e.state.Anchor))
		if ok && last.UnixNano() >= next {
			m.passOver(e, s, next, last.UnixNano(), now, reason)
		}
	} else {
		m.passed(e, next, next, 1, now, reason)
	}
	e.state.Next = 0
}

// withinWindow returns the first due time that CatchUpWindow still allows to run, 0 if there is none.
func (m *Machine) withinWindow(e *entry, s *schedule.Schedule, first, now int64) int64 {
	window := int64(m.jobOf(e).CatchUpWindow)
	if window == 0 || first >= now-window {
		return first
	}
	t, ok := s.Next(toTime(now-window-1), toTime(e.state.Anchor))
	if !ok {
		return 0
	}
	return t.UnixNano()
}

// withinLimit returns the first time from which at most CatchUpLimit times are due until newest.
func (m *Machine) withinLimit(e *entry, s *schedule.Schedule, from, newest int64) int64 {
	limit, anchor := m.jobOf(e).CatchUpLimitOrDefault(), toTime(e.state.Anchor)
	if s.Count(toTime(from-1), toTime(newest), anchor, limit+1) <= limit {
		return from
	}
	low, high := from, newest // more than limit times from low on, at most limit from high on
	for high-low > 1 {
		mid := low + (high-low)/2
		if s.Count(toTime(mid-1), toTime(newest), anchor, limit+1) > limit {
			low = mid
		} else {
			high = mid
		}
	}
	t, ok := s.Next(toTime(high-1), anchor)
	if !ok {
		return newest
	}
	return t.UnixNano()
}

// passOver records that the scheduled times from first to last do not run, and moves Next past them. It
// returns 0, for choose.
func (m *Machine) passOver(e *entry, s *schedule.Schedule, first, last, now int64, reason string) int64 {
	m.touch(e) // or the same times would be skipped again after a crash
	n := uint64(s.Count(toTime(first-1), toTime(last), toTime(e.state.Anchor), countLimit))
	e.state.Next = m.nextAfter(e, last)
	if n != 0 {
		m.passed(e, first, last, n, now, reason)
	}
	return 0
}

// passed records that n scheduled times do not run.
func (m *Machine) passed(e *entry, first, last int64, n uint64, now int64, reason string) {
	e.state.Counters.Skipped += n
	m.historyOf(e, store.RunRecord{
		ID:     identity.Run{Partition: uint16(m.cfg.Partition), UID: e.state.UID, Scheduled: last},
		Status: carillon.RunSkipped, Reason: reason, Skipped: n, From: first, Due: last, Finished: now,
	})
	if m.cfg.Events.Skipped != nil {
		m.cfg.Events.Skipped(reason, n)
	}
}

// prior returns the scheduled time before t.
func prior(e *entry, s *schedule.Schedule, t int64) int64 {
	p, ok := s.Last(toTime(t-1), toTime(e.state.Anchor))
	if !ok {
		return t - 1
	}
	return p.UnixNano()
}

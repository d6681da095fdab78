package schedule

import (
	"strings"
	"time"
)

// MaxSet is the most schedules in one text.
const MaxSet = 16

// setRule fires whenever one of its members does. Times at which several fire are one time.
type setRule []*Schedule

// parseSet reads schedules with a semicolon between them. A member reads as it would alone: it may have a
// time zone of its own, and its phase or anchor.
func (s *Schedule) parseSet(text span, opt Options) *Error {
	var members setRule
	for rest, more := text, true; more; {
		part := rest
		end := strings.IndexByte(rest.text, ';')
		if more = end >= 0; more {
			part, rest = rest.to(end), rest.from(end+1)
		}
		if part = trim(part); part.text == "" {
			return part.fail("schedule", "nothing stands before or after a semicolon, which parts several schedules")
		}
		if len(members) == MaxSet {
			return part.fail("schedule", "there are more than %d schedules", MaxSet)
		}
		m, err := parseOne(part, opt)
		if err != nil {
			return err
		}
		if m.runs > 0 && !m.hasStart {
			return part.fail("repeat", "among several schedules it is not clear which runs R%d counts; "+
				"give it a start, as in R%d/2026-01-01T00:00:00Z/PT15M, or no number", m.runs, m.runs)
		}
		s.anchored = s.anchored || m.anchored
		if m.hasStart && !s.hasStart {
			s.start, s.hasStart = m.start, true
		}
		members = append(members, m)
	}
	s.rule = members
	return nil
}

func (r setRule) next(after, anchor time.Time) (first time.Time, ok bool) {
	for _, m := range r {
		if t, has := m.rule.next(after, anchor); has && (!ok || t.Before(first)) {
			first, ok = t, true
		}
	}
	return first, ok
}

func (r setRule) last(until, anchor time.Time) (newest time.Time, ok bool) {
	for _, m := range r {
		if t, has := m.rule.last(until, anchor); has && (!ok || t.After(newest)) {
			newest, ok = t, true
		}
	}
	return newest, ok
}

// count merges the members' times, so that each of these is computed once.
func (r setRule) count(after, until, anchor time.Time, limit int) int {
	var next [MaxSet]time.Time // zero: none is left
	step := func(i int, t time.Time) {
		var ok bool
		if next[i], ok = r[i].rule.next(t, anchor); !ok || next[i].After(until) {
			next[i] = time.Time{}
		}
	}
	for i := range r {
		step(i, after)
	}
	n := 0
	for ; n < limit; n++ {
		var first time.Time
		for _, t := range next[:len(r)] {
			if !t.IsZero() && (first.IsZero() || t.Before(first)) {
				first = t
			}
		}
		if first.IsZero() {
			break
		}
		for i := range r {
			if next[i].Equal(first) {
				step(i, first)
			}
		}
	}
	return n
}

// Members returns the schedules of a set, in the order of the text; the schedule itself if it is no set.
func (s *Schedule) Members() []*Schedule {
	if r, ok := s.rule.(setRule); ok {
		return r
	}
	return []*Schedule{s}
}

// Extended returns a schedule with the same times from the anchor on, in which each @every without a phase
// fires before the anchor as well, at whole intervals from it.
func (s *Schedule) Extended(anchor time.Time) *Schedule {
	switch r := s.rule.(type) {
	case setRule:
		out, members := *s, make(setRule, len(r))
		for i, m := range r {
			members[i] = m.Extended(anchor)
		}
		out.rule = members
		return &out
	case *intervalRule:
		if s.every && s.anchored && inRange(anchor) {
			_, phase := divide(anchor, minTime, r.period)
			out := *s
			out.anchored, out.rule = false, &intervalRule{series{start: minTime.Add(phase)}, r.period}
			return &out
		}
	}
	return s
}

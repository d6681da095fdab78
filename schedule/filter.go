package schedule

import (
	"math"
	"time"
)

// Filter leaves out times of a schedule: those in one of Except, and, if there are any in Only, those in none
// of them. A nil Filter leaves out none.
type Filter struct {
	Except []*Dates
	Only   []*Dates
}

// Around returns whether the filter leaves an instant out, and a stretch of time around it of which the same
// is true: from the first instant to before the second. The stretch may go on beyond either end; zero is no
// end.
func (f *Filter) Around(t time.Time) (out bool, from, until time.Time) {
	out, a, b := f.stretch(nanoseconds(t))
	if a != math.MinInt64 {
		from = time.Unix(0, a).UTC()
	}
	if b != math.MaxInt64 {
		until = time.Unix(0, b).UTC()
	}
	return out, from, until
}

func (f *Filter) stretch(t int64) (out bool, from, until int64) {
	from, until = math.MinInt64, math.MaxInt64
	if f == nil {
		return false, from, until
	}
	for _, d := range f.Except {
		in, a, b := d.around(t)
		out, from, until = out || in, max(from, a), min(until, b)
	}
	within := len(f.Only) == 0
	for _, d := range f.Only {
		in, a, b := d.around(t)
		within, from, until = within || in, max(from, a), min(until, b)
	}
	return out || !within, from, until
}

// nanoseconds is an instant as UTC nanoseconds since 1970, held within what these can say.
func nanoseconds(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}

// Excludes reports whether the filter leaves an instant out.
func (f *Filter) Excludes(t time.Time) bool {
	out, _, _ := f.stretch(nanoseconds(t))
	return out
}

// mostStretches bounds how far Next and Last look past what is left out: about a year of days apart.
const mostStretches = 400

// Next is [Schedule.Next] without what the filter leaves out. ok is also false if the next time lies more
// than 400 stretches of what is left out ahead, of which each is a day or more.
func (f *Filter) Next(s *Schedule, after, anchor time.Time) (t time.Time, ok bool) {
	for range mostStretches {
		if t, ok = s.Next(after, anchor); !ok {
			return t, false
		}
		out, _, until := f.stretch(nanoseconds(t))
		switch {
		case !out:
			return t, true
		case until == math.MaxInt64:
			return time.Time{}, false
		}
		after = time.Unix(0, until-1).UTC()
	}
	return time.Time{}, false
}

// Last is [Schedule.Last] without what the filter leaves out, bounded like Next.
func (f *Filter) Last(s *Schedule, until, anchor time.Time) (t time.Time, ok bool) {
	for range mostStretches {
		if t, ok = s.Last(until, anchor); !ok {
			return t, false
		}
		out, from, _ := f.stretch(nanoseconds(t))
		switch {
		case !out:
			return t, true
		case from == math.MinInt64:
			return time.Time{}, false
		}
		until = time.Unix(0, from-1).UTC()
	}
	return time.Time{}, false
}

// Count is [Schedule.Count] without what the filter leaves out.
func (f *Filter) Count(s *Schedule, after, until, anchor time.Time, limit int) int {
	n := 0
	for n < limit {
		t, ok := s.Next(after, anchor)
		if !ok || t.After(until) {
			break
		}
		out, _, end := f.stretch(nanoseconds(t))
		if after = until; end != math.MaxInt64 {
			if last := time.Unix(0, end-1).UTC(); last.Before(until) {
				after = last
			}
		}
		if !out {
			n += s.Count(t.Add(-1), after, anchor, limit-n)
		}
	}
	return n
}

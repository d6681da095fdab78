package schedule

import (
	"math/bits"
	"strings"
	"time"
)

// series is what the rules have in common whose fire times k are counted from a start, k ≥ 0.
type series struct {
	start    time.Time // of an ISO 8601 repeat, or the first instant of year 1 in phase
	anchored bool      // start is the caller's anchor
	runs     uint64    // with a start of its own: k < runs; 0 for no limit
}

// origin is the time of k = 0, if it lies within the years this package knows.
func (s *series) origin(anchor time.Time) (base time.Time, ok bool) {
	if s.anchored {
		return anchor.UTC(), inRange(anchor)
	}
	return s.start, true
}

// intervalRule fires at its start + k·period. All of it is arithmetic, in 128 bits: nine thousand years of
// nanoseconds do not fit 64.
type intervalRule struct {
	series
	period time.Duration
}

// shortest is the finest interval taken; below it, firing on time has no meaning in a scheduler.
const shortest = time.Millisecond

// parseEvery reads "@every D" and "@every D/PHASE", given as blank-separated words.
func (s *Schedule) parseEvery(words []span) *Error {
	switch {
	case len(words) == 1:
		return words[0].from(len(words[0].text)).fail("interval",
			"a duration is missing; write for example @every 1h30m")
	case len(words) > 2:
		return words[2].fail("interval", "nothing may follow the duration")
	}
	text, phase := words[1], span{}
	slash := strings.IndexByte(text.text, '/')
	if slash >= 0 {
		text, phase = text.to(slash), text.from(slash+1)
	}
	interval, err := parseSpan(text, "interval")
	if err != nil {
		return err
	}
	if interval < shortest {
		return text.fail("interval", "%s is shorter than the shortest interval, %v", quote(text.text), shortest)
	}
	rule := &intervalRule{series{anchored: slash < 0}, interval}
	s.rule, s.period, s.anchored, s.every = rule, interval, rule.anchored, true
	if rule.anchored {
		return nil
	}
	offset, err := parseSpan(phase, "phase")
	if err != nil {
		return err
	}
	if offset >= interval {
		return phase.fail("phase", "%v is not below the interval, %v", offset, interval)
	}
	rule.start = firstInPhase(interval, offset)
	return nil
}

// firstInPhase is the first instant of year 1 that is a whole number of intervals from the Unix epoch plus
// the phase.
func firstInPhase(interval, phase time.Duration) time.Time {
	_, rest := divide(time.Unix(0, int64(phase)), minTime, interval)
	return minTime.Add(rest)
}

func inRange(t time.Time) bool { return !t.Before(minTime) && !t.After(maxTime) }

func (r *intervalRule) next(after, anchor time.Time) (time.Time, bool) {
	base, ok := r.origin(anchor)
	switch {
	case !ok:
		return time.Time{}, false
	case after.Before(base):
		return base, true
	}
	k := r.passed(after, base)
	if (r.runs > 0 && k >= r.runs) || after.After(maxTime) {
		return time.Time{}, false
	}
	t := multiple(base, r.period, k)
	if !inRange(t) {
		return time.Time{}, false
	}
	return t, true
}

func (r *intervalRule) last(until, anchor time.Time) (time.Time, bool) {
	base, ok := r.origin(anchor)
	if !ok || until.Before(base) {
		return time.Time{}, false
	}
	return multiple(base, r.period, r.passed(until, base)-1), true
}

func (r *intervalRule) count(after, until, anchor time.Time, limit int) int {
	base, ok := r.origin(anchor)
	if !ok || !after.Before(until) {
		return 0
	}
	return int(min(r.passed(until, base)-r.passed(after, base), uint64(max(limit, 0))))
}

// passed counts the fire times at or before t.
func (r *intervalRule) passed(t, base time.Time) uint64 {
	if t.Before(base) {
		return 0
	}
	if t.After(maxTime) {
		t = maxTime
	}
	k, _ := divide(t, base, r.period)
	if r.runs > 0 && k >= r.runs {
		return r.runs
	}
	return k + 1
}

// divide gives how often d fits between base and t, and what is left. t is not before base; both are in
// range.
func divide(t, base time.Time, d time.Duration) (times uint64, rest time.Duration) {
	seconds, nanos := t.Unix()-base.Unix(), int64(t.Nanosecond()-base.Nanosecond())
	if nanos < 0 {
		seconds, nanos = seconds-1, nanos+int64(time.Second)
	}
	hi, lo := bits.Mul64(uint64(seconds), uint64(time.Second))
	lo, carry := bits.Add64(lo, uint64(nanos), 0)
	// hi < 18: ten thousand years; d is at least a millisecond
	times, left := bits.Div64(hi+carry, lo, uint64(d))
	return times, time.Duration(left)
}

// multiple is base + k·d, in UTC, for a result no further than d beyond the years this package knows.
func multiple(base time.Time, d time.Duration, k uint64) time.Time {
	hi, lo := bits.Mul64(k, uint64(d))
	seconds, nanos := bits.Div64(hi, lo, uint64(time.Second))
	return time.Unix(base.Unix()+int64(seconds), int64(base.Nanosecond())+int64(nanos)).UTC()
}

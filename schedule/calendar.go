package schedule

import "time"

// period is an ISO 8601 duration: months and days move the wall clock, elapsed is physical time.
type period struct {
	months  int64
	days    int64
	elapsed time.Duration
}

// Mean lengths in seconds; a Gregorian month is 146,097 days / 4,800.
const meanMonth = 146097 * secondsPerDay / 4800.0

// after is k periods after an anchor. Years and months come first and clamp to the length of the month, then
// weeks and days, all on the wall clock of loc; then elapsed time. ok is false past the year 9999.
func (p period) after(anchor time.Time, loc *time.Location, k int64) (t time.Time, ok bool) {
	t = anchor.UTC()
	if k > 0 && (p.months != 0 || p.days != 0) {
		number, second := splitCivil(t.Unix() + offsetOf(t.In(loc)))
		year, month, day := dateOf(number)
		year, month, _ = dateOf(dayNumber(year, month+int(k*p.months), 1))
		number = dayNumber(year, month, min(day, daysIn(year, month))) + k*p.days
		if number > maxUnix/secondsPerDay {
			return time.Time{}, false
		}
		t = time.Unix(instantOf(loc, number*secondsPerDay+int64(second)), int64(t.Nanosecond())).UTC()
	}
	t = multiple(t, p.elapsed, uint64(k))
	if !inRange(t) {
		return time.Time{}, false
	}
	return t, true
}

// calendarRule fires at anchor + k·period, k ≥ 0, for periods with years, months, weeks or days.
type calendarRule struct {
	series
	period period
	loc    *time.Location
}

func (r *calendarRule) next(after, anchor time.Time) (time.Time, bool) {
	base, ok := r.origin(anchor)
	if !ok || after.After(maxTime) {
		return time.Time{}, false
	}
	return r.at(base, r.passed(after, base))
}

func (r *calendarRule) last(until, anchor time.Time) (time.Time, bool) {
	base, ok := r.origin(anchor)
	if !ok || until.Before(base) {
		return time.Time{}, false
	}
	return r.at(base, r.passed(until, base)-1)
}

func (r *calendarRule) count(after, until, anchor time.Time, limit int) int {
	n := 0
	for ; n < limit; n++ {
		t, ok := r.next(after, anchor)
		if !ok || t.After(until) {
			break
		}
		after = t
	}
	return n
}

// at is the fire time number k, if there is one.
func (r *calendarRule) at(base time.Time, k int64) (time.Time, bool) {
	if r.runs > 0 && uint64(k) >= r.runs {
		return time.Time{}, false
	}
	return r.period.after(base, r.loc, k)
}

// passed counts the fire times at or before t: a guess from the mean length of the period, then a few steps.
func (r *calendarRule) passed(t, base time.Time) int64 {
	if t.Before(base) {
		return 0
	}
	mean := float64(r.period.months)*meanMonth + float64(r.period.days)*secondsPerDay +
		r.period.elapsed.Seconds()
	k := int64(float64(min(t.Unix(), maxUnix)-base.Unix()) / mean)
	if r.runs > 0 {
		k = min(k, int64(min(r.runs, 1<<62)))
	}
	for k > 0 && r.isAfter(base, k-1, t) {
		k--
	}
	for !r.isAfter(base, k, t) {
		k++
	}
	return k
}

// isAfter reports whether fire time k lies after t, or does not exist.
func (r *calendarRule) isAfter(base time.Time, k int64, t time.Time) bool {
	at, ok := r.at(base, k)
	return !ok || at.After(t)
}

package schedule

import "time"

// Next is the first fire time strictly after `after`, in UTC; ok is false when there is none before the year
// 10000. anchor is the first due time, from which anchored schedules count: they fire at anchor + k·period, k
// ≥ 0, so at anchor itself as well. Other schedules ignore it. Next reads no clock and allocates nothing.
//
// The rule of a cron follows; those of @every and ISO 8601 repeats are in every.go and calendar.go.
func (s *Schedule) Next(after, anchor time.Time) (t time.Time, ok bool) {
	return s.rule.next(after, anchor)
}

// Last is the newest fire time at or before until, in UTC; ok is false when there is none. It takes a few
// dozen steps, however many fire times lie before.
func (s *Schedule) Last(until, anchor time.Time) (t time.Time, ok bool) {
	return s.rule.last(until, anchor)
}

// Count counts the fire times in (after, until] and stops at limit. Constant periods are counted by
// arithmetic, others one by one.
func (s *Schedule) Count(after, until, anchor time.Time, limit int) int {
	return s.rule.count(after, until, anchor, limit)
}

func (c *cronRule) next(after, _ time.Time) (time.Time, bool) {
	unix, ok := c.nextUnix(firstSecond(after), maxUnix)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(unix, 0).UTC(), true
}

// firstSecond is the first whole second after an instant, within the years this package knows.
func firstSecond(after time.Time) int64 {
	switch {
	case after.Before(minTime):
		return minUnix
	case after.After(maxTime):
		return maxUnix + 1
	}
	return after.Unix() + 1
}

var (
	minTime = time.Unix(minUnix, 0).UTC()
	maxTime = time.Unix(maxUnix, 999_999_999).UTC()
)

// horizon bounds a search that finds nothing, such as 02:30 on days that always skip it. From 2100 on the
// calendar and the rules of every zone repeat after 400 years: what does not come by then never comes.
func horizon(from int64) int64 {
	const year2100, fourHundredYears = 4102444800, 146097 * secondsPerDay
	return max(from, year2100) + fourHundredYears + 2*maxOffset
}

// nextUnix finds the first fire time in [from, limit], segment by segment: within one, civil time runs
// evenly.
func (c *cronRule) nextUnix(from, limit int64) (int64, bool) {
	limit = min(limit, horizon(from))
	for from <= limit {
		seg := segmentAt(c.loc, from)
		civil := from + seg.offset
		if c.fixed {
			shown, due := c.afterChange(from)
			if due {
				return from, true
			}
			civil = max(civil, shown)
		}
		found, ok := c.nextCivil(civil, limit+maxOffset)
		if ok && found < seg.end+seg.offset {
			return found - seg.offset, found-seg.offset <= limit
		}
		// Any later instant shows at least seg.end-maxOffset, so the search can go on where a match after
		// that may be shown first: rare dates do not cost a visit to every change of offset on the way.
		if resume := seg.end - maxOffset; civil > resume {
			found, ok = c.nextCivil(resume, limit+maxOffset)
		}
		if !ok {
			return 0, false
		}
		from = max(seg.end, found-maxOffset)
	}
	return 0, false
}

// afterChange applies the daylight saving rule for fixed times. due: a time fell in the gap that ends at
// `from`. Civil times before `shown` have been shown by the clocks already.
func (c *cronRule) afterChange(from int64) (shown int64, due bool) {
	change, ok := recentChange(c.loc, from)
	if !ok {
		return minUnix - maxOffset, false
	}
	switch forward := change.after - change.before; {
	case forward > changeLimit || forward < -changeLimit: // a change of the calendar
	case forward < 0:
		return change.at + change.before, false
	case change.at == from:
		_, due = c.nextCivil(from+change.before, from+change.after-1)
	}
	return minUnix - maxOffset, due
}

// last closes in on the newest fire time: first back in doubling steps until there is one, then by halves.
func (c *cronRule) last(until, _ time.Time) (time.Time, bool) {
	end := firstSecond(until) - 1
	low, step := end, int64(60)
	if end < minUnix {
		return time.Time{}, false
	}
	best, ok := c.nextUnix(low, end)
	for !ok {
		if low <= minUnix {
			return time.Time{}, false
		}
		low = max(low-step, minUnix)
		step *= 2
		best, ok = c.nextUnix(low, end)
	}
	for high := end; best < high; { // no fire time after high, best is one
		middle := best + 1 + (high-best-1)/2
		if found, ok := c.nextUnix(middle, high); ok {
			best = found
		} else {
			high = middle - 1
		}
	}
	return time.Unix(best, 0).UTC(), true
}

func (c *cronRule) count(after, until, _ time.Time, limit int) int {
	n, end := 0, firstSecond(until)-1
	for from := firstSecond(after); n < limit; n++ {
		found, ok := c.nextUnix(from, end)
		if !ok {
			break
		}
		from = found + 1
	}
	return n
}

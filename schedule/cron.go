package schedule

import "time"

const (
	firstListedYear = 1970
	lastListedYear  = 2199
)

// bitset holds the values of one field, each less the field's base.
type bitset [4]uint64

func (b *bitset) add(v int)      { b[v>>6] |= 1 << (v & 63) }
func (b *bitset) has(v int) bool { return b[v>>6]>>(v&63)&1 != 0 }

// cronRule is a cron expression as bit masks over civil time.
type cronRule struct {
	second   uint64
	minute   uint64
	hour     uint32
	month    uint32 // bits 1 to 12
	days     days
	year     bitset // less firstListedYear; means nothing when anyYear
	anyYear  bool
	fixed    bool // no *, ? or / in second, minute or hour: runs once per matching day, whatever the clocks do
	earliest int  // second of the day of the first match in a day
	loc      *time.Location
}

// nextCivil finds the first civil time that matches, from `from` on, up to `limit`. It knows no time zone.
func (c *cronRule) nextCivil(from, limit int64) (int64, bool) {
	number, second := splitCivil(from)
	found, ok := c.nextDay(number, limit)
	if !ok {
		return 0, false
	}
	if found == number {
		if second, ok = c.nextSecond(second); ok {
			return within(number*secondsPerDay+int64(second), limit)
		}
		if found, ok = c.nextDay(number+1, limit); !ok {
			return 0, false
		}
	}
	return within(found*secondsPerDay+int64(c.earliest), limit)
}

func within(civil, limit int64) (int64, bool) { return civil, civil <= limit }

// nextSecond finds the first time of day that matches, from a second of the day on.
func (c *cronRule) nextSecond(from int) (second int, ok bool) {
	h, m, s := from/3600, from/60%60, from%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if rest := c.second >> s; rest != 0 {
				return from + lowest(rest), true
			}
		}
		if rest := c.minute >> (m + 1); rest != 0 {
			return h*3600 + (m+1+lowest(rest))*60 + lowest(c.second), true
		}
	}
	if rest := c.hour >> (h + 1); rest != 0 {
		return (h+1+lowest(rest))*3600 + lowest(c.minute)*60 + lowest(c.second), true
	}
	return 0, false
}

// nextDay finds the first matching day, from a day number on. It gives up past the limit, a civil time in
// seconds.
func (c *cronRule) nextDay(number, limit int64) (int64, bool) {
	year, month, day := dateOf(number)
	first := number - int64(day-1)
	for first*secondsPerDay <= limit {
		if c.month>>month&1 != 0 && c.yearMatches(year) {
			length := daysIn(year, month)
			mask := c.days.mask(weekday(first), length) >> day << day
			if mask != 0 {
				return first + int64(lowest(mask)) - 1, true
			}
		}
		var ok bool
		if year, month, ok = c.nextMonth(year, month); !ok {
			return 0, false
		}
		day = 1
		first = dayNumber(year, month, 1)
	}
	return 0, false
}

// nextMonth finds the first month after (year, month) that the month and year fields allow.
func (c *cronRule) nextMonth(year, month int) (nextYear, nextMonth int, ok bool) {
	if rest := c.month >> (month + 1); rest != 0 && c.yearMatches(year) {
		return year, month + 1 + lowest(rest), true
	}
	year, ok = c.nextYear(year)
	return year, lowest(c.month), ok
}

func (c *cronRule) nextYear(year int) (int, bool) {
	if c.anyYear {
		return year + 1, true
	}
	for year = max(year+1, firstListedYear); year <= lastListedYear; year++ {
		if c.year.has(year - firstListedYear) {
			return year, true
		}
	}
	return 0, false
}

func (c *cronRule) yearMatches(year int) bool {
	if c.anyYear {
		return true
	}
	return year >= firstListedYear && year <= lastListedYear && c.year.has(year-firstListedYear)
}

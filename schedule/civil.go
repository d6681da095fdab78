package schedule

import (
	"math/bits"
	"time"
)

// Civil time is what a clock on the wall shows, as seconds since 1970-01-01 00:00:00 on that wall. It is a
// plain number line: gaps and overlaps exist only where instants are mapped to it (segments.go).

const (
	secondsPerDay = 86400
	minYear       = 1
	maxYear       = 9999
	minUnix       = -62135596800 // 0001-01-01T00:00:00Z
	maxUnix       = 253402300799 // 9999-12-31T23:59:59Z
)

// splitCivil gives the day number and the second of the day.
func splitCivil(civil int64) (day int64, second int) {
	day = civil / secondsPerDay
	second = int(civil % secondsPerDay)
	if second < 0 {
		day--
		second += secondsPerDay
	}
	return day, second
}

// dayNumber is the number of days from 1970-01-01 to a date. Months count from 1.
func dayNumber(year, month, day int) int64 {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}

// dateOf is the date of a day number.
func dateOf(number int64) (year, month, day int) {
	year, m, day := dayStart(number).Date()
	return year, int(m), day
}

func dayStart(number int64) time.Time { return time.Unix(number*secondsPerDay, 0).UTC() }

// weekday is 0 for Sunday.
func weekday(number int64) int { return int(dayStart(number).Weekday()) }

// daysIn is the length of a month; months count from 1.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// lowest is the number of the lowest bit set, as an int.
func lowest[T uint32 | uint64](mask T) int { return bits.TrailingZeros64(uint64(mask)) }

package schedule

import "math/bits"

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

// dayNumber is the number of days from 1970-01-01 to a date of the proleptic Gregorian calendar
// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil). Months count from 1.
func dayNumber(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(int64(year), 400)
	yearOfEra := int64(year) - era*400
	dayOfYear := int64((153*(month-3)+2)/5 + day - 1)
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

// dateOf is the date of a day number (Hinnant's civil_from_days).
func dateOf(number int64) (year, month, day int) {
	number += 719468
	era := floorDiv(number, 146097)
	dayOfEra := number - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153
	year, month, day = int(yearOfEra+era*400), int(shifted)+3, int(dayOfYear-(153*shifted+2)/5)+1
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// weekday is 0 for Sunday; 1970-01-01 was a Thursday.
func weekday(number int64) int {
	w := int((number + 4) % 7)
	if w < 0 {
		w += 7
	}
	return w
}

func isLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

var monthLengths = [...]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// daysIn is the length of a month; months count from 1.
func daysIn(year, month int) int {
	if month == 2 && isLeap(year) {
		return 29
	}
	return monthLengths[month]
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// lowest is the number of the lowest bit set, as an int.
func lowest[T uint32 | uint64](mask T) int { return bits.TrailingZeros64(uint64(mask)) }

package schedule

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestYearKinds: the 14 kinds of year are all there are in 400 years, and each occurs; the calendar repeats
// after that.
func TestYearKinds(t *testing.T) {
	var seen uint32
	for year := 2000; year < 2400; year++ {
		kind := yearKind(year)
		seen |= 1 << kind
		if yearKind(year+400) != kind {
			t.Errorf("%d and %d differ", year, year+400)
		}
		first := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		if days := first.AddDate(1, 0, 0).Sub(first).Hours() / 24; int(first.Weekday()) != kind%7 ||
			(days == 366) != (kind >= 7) {
			t.Errorf("%d is of kind %d: begins on %v, %v days", year, kind, first.Weekday(), days)
		}
	}
	if seen != allYearKinds {
		t.Errorf("only %014b occur", seen)
	}
}

// TestImpossible holds the proof against a walk through all 146,097 days of the cycle, over random day and
// month fields.
func TestImpossible(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	impossible := 0
	for range 300 {
		c := &cronRule{second: 1, minute: 1, hour: 1, anyYear: true,
			month: 1 << (1 + random.IntN(12)), loc: time.UTC}
		c.days = days{bothRequired: random.IntN(4) > 0, domAny: random.IntN(4) == 0, dowAny: random.IntN(3) == 0}
		d := 28 + random.IntN(4)
		c.days.dom = 1 << d & (uint32(random.IntN(2)) << d)
		c.days.nearest = 1 << (1 + random.IntN(31)) * uint32(random.IntN(2))
		c.days.fromEnd = 1 << (25 + random.IntN(6)) * uint32(random.IntN(2))
		c.days.nthDow[random.IntN(5)] = 1 << random.IntN(7)
		c.days.dow = 1 << random.IntN(7) * uint8(random.IntN(2))
		fires := false
		for first := dayNumber(2000, 1, 1); first < dayNumber(2400, 1, 1) && !fires; {
			year, month, _ := dateOf(first)
			length := daysIn(year, month)
			fires = c.month>>month&1 != 0 && c.days.mask(weekday(first), length) != 0
			first += int64(length)
		}
		if got := c.matchesIn(allYearKinds); got != fires {
			t.Errorf("%+v: fires %v, the proof says %v", c.days, fires, got)
		}
		if !fires {
			impossible++
		}
	}
	if impossible < 20 {
		t.Errorf("only %d impossible ones among them", impossible)
	}
}

// TestCivil holds the calendar against package time.
func TestCivil(t *testing.T) {
	for day := time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 10001; day = day.AddDate(0, 0, 13) {
		number, _ := splitCivil(day.Unix())
		year, month, d := dateOf(number)
		if y, m, dd := day.Date(); y != year || int(m) != month || dd != d ||
			dayNumber(year, month, d) != number || weekday(number) != int(day.Weekday()) {
			t.Fatalf("%v: day %d is %d-%d-%d, a %d", day, number, year, month, d, weekday(number))
		}
	}
}

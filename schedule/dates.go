package schedule

import (
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// Dates is a parsed, immutable set of days and of spans of time, such as a calendar of holidays. Days are
// civil days in its time zone: from the first instant that shows midnight to that of the next day.
type Dates struct {
	loc       *time.Location
	spans     []interval // what is written with a year: in order, none touches another
	yearly    [13]uint32 // of each month, a bit for each day that is in the set every year
	everyYear bool       // yearly has some
	years     interval   // in which there are dates at all, 1970 to 2199
}

// interval is from a first instant to before another one, in UTC nanoseconds.
type interval struct{ from, until int64 }

// ParseDates reads a set of:
//
//	2026-12-25                                    a day
//	2026-12-24/2027-01-01                         days, the last one included
//	12-25                                         a day of every year; 02-29 of leap years
//	12-24/01-01                                   days of every year, the last one included
//	2026-12-24T12:00:00Z/2026-12-24T18:00:00Z     from one instant, in RFC 3339, to before another one
//
// loc is the time zone of days; nil is UTC. Years are 1970 to 2199. An error is an *Error with field "date"
// about the text with the index wrong.
func ParseDates(texts []string, loc *time.Location) (d *Dates, wrong int, err error) {
	if loc == nil {
		loc = time.UTC
	}
	d = &Dates{loc: loc}
	first, end := dayNumber(firstListedYear, 1, 1), dayNumber(lastListedYear+1, 1, 1)
	d.years = interval{d.midnight(first), d.midnight(end)}
	for i, text := range texts {
		if fault := d.add(span{text, 0}); fault != nil {
			fault.Expr = text
			return nil, i, fault
		}
	}
	d.merge()
	return d, 0, nil
}

const dateField = "date"

func (d *Dates) add(text span) *Error {
	first, last := text, text
	if slash := strings.IndexByte(text.text, '/'); slash >= 0 {
		first, last = text.to(slash), text.from(slash+1)
	}
	switch {
	case strings.IndexByte(text.text, 'T') >= 0:
		return d.addInstants(first, last)
	case len(first.text) != len(last.text):
		return last.fail(dateField, "%s and %s are not of one kind; write both with a year, or both without",
			quote(first.text), quote(last.text))
	}
	a, err := parseDate(first)
	if err != nil {
		return err
	}
	b, err := parseDate(last)
	switch {
	case err != nil:
		return err
	case len(first.text) == len("01-02"):
		d.addYearly(a, b)
		return nil
	case b < a:
		return last.fail(dateField, "it ends before it begins")
	}
	d.spans = append(d.spans, interval{d.midnight(a), d.midnight(b + 1)})
	return nil
}

// parseDate returns the day number of a date; one without a year is of a leap year.
func parseDate(text span) (int64, *Error) {
	full := text.text
	if len(full) == len("01-02") {
		full = "2000-" + full
	}
	t, err := time.Parse(time.DateOnly, full)
	switch {
	case err != nil:
		return 0, text.fail(dateField, "%s is no date; write for example 2026-12-25, 12-25 for every year, "+
			"2026-12-24/2027-01-01, or two RFC 3339 times with a / between them", quote(text.text))
	case t.Year() < firstListedYear || t.Year() > lastListedYear:
		return 0, text.fail(dateField, "the year is not from %d to %d", firstListedYear, lastListedYear)
	}
	return t.Unix() / secondsPerDay, nil
}

func (d *Dates) addInstants(first, last span) *Error {
	var ends [2]time.Time
	for i, text := range []span{first, last} {
		var err *Error
		if ends[i], err = parseInstant(text, dateField); err != nil {
			return err
		}
		if y := ends[i].Year(); y < firstListedYear || y > lastListedYear {
			return text.fail(dateField, "the year is not from %d to %d", firstListedYear, lastListedYear)
		}
	}
	if first.pos == last.pos {
		return first.fail(dateField, "an instant has no length; write when it ends after a /")
	}
	if !ends[0].Before(ends[1]) {
		return last.fail(dateField, "it does not end after it begins")
	}
	d.spans = append(d.spans, interval{ends[0].UnixNano(), ends[1].UnixNano()})
	return nil
}

// addYearly adds days of a leap year, from a to b, around its end if b is before a.
func (d *Dates) addYearly(a, b int64) {
	d.everyYear = true
	for day := a; ; day++ {
		_, month, of := dateOf(day)
		d.yearly[month] |= 1 << of
		if _, m, o := dateOf(b); m == month && o == of {
			return
		}
		if month == 12 && of == 31 {
			day -= 366
		}
	}
}

// merge orders the spans and joins those that touch.
func (d *Dates) merge() {
	slices.SortFunc(d.spans, func(a, b interval) int { return int(min(max(a.from-b.from, -1), 1)) })
	merged := d.spans[:0]
	for _, s := range d.spans {
		if n := len(merged); n > 0 && s.from <= merged[n-1].until {
			merged[n-1].until = max(merged[n-1].until, s.until)
		} else if s.from < s.until { // a day that a zone has left out is empty
			merged = append(merged, s)
		}
	}
	d.spans = merged
}

// midnight is the first instant of a day, in nanoseconds.
func (d *Dates) midnight(day int64) int64 {
	return instantOf(d.loc, day*secondsPerDay) * int64(time.Second)
}

// around returns whether an instant is in the set, and a stretch [from, until) around it of which the same is
// true. The stretch may go on beyond either end.
func (d *Dates) around(t int64) (in bool, from, until int64) {
	i := sort.Search(len(d.spans), func(i int) bool { return d.spans[i].until > t })
	from, until = math.MinInt64, math.MaxInt64
	switch {
	case i < len(d.spans) && d.spans[i].from <= t:
		in, from, until = true, d.spans[i].from, d.spans[i].until
	case i < len(d.spans):
		until = d.spans[i].from
	}
	if !in && i > 0 {
		from = d.spans[i-1].until
	}
	if d.everyYear {
		also, a, b := d.aroundDays(t)
		in, from, until = in || also, max(from, a), min(until, b)
	}
	return in, from, until
}

// daysAround is how many days aroundDays looks in either direction.
const daysAround = 40

// aroundDays is around for what is in the set every year.
func (d *Dates) aroundDays(t int64) (in bool, from, until int64) {
	switch { // and so no midnight below is beyond what nanoseconds can say
	case t < d.years.from:
		return false, math.MinInt64, d.years.from
	case t >= d.years.until:
		return false, d.years.until, math.MaxInt64
	}
	unix := time.Unix(0, t).Unix()
	day, _ := splitCivil(unix + segmentAt(d.loc, unix).offset)
	for t >= d.midnight(day+1) { // clocks that were set back over midnight show the day before once more
		day++
	}
	in = d.eachYear(day)
	first, last := day, day
	for day-first < daysAround && d.eachYear(first-1) == in {
		first--
	}
	for last-day < daysAround && d.eachYear(last+1) == in {
		last++
	}
	return in, max(d.midnight(first), d.years.from), min(d.midnight(last+1), d.years.until)
}

func (d *Dates) eachYear(day int64) bool {
	_, month, of := dateOf(day)
	return d.yearly[month]>>of&1 != 0
}

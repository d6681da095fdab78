package schedule

import (
	"fmt"
	"strings"
	"time"
)

// field describes one field of a cron expression.
type field struct {
	name     string
	min, max int
	size     int // of the cycle that wrap-around ranges and steps go through
	names    []string
	first    int // value of names[0]
}

var (
	secondField = field{name: "second", min: 0, max: 59, size: 60}
	minuteField = field{name: "minute", min: 0, max: 59, size: 60}
	hourField   = field{name: "hour", min: 0, max: 23, size: 24}
	domField    = field{name: "day of month", min: 1, max: 31, size: 31}
	monthField  = field{name: "month", min: 1, max: 12, size: 12, first: 1, names: monthNames}
	dowField    = field{name: "day of week", min: 0, max: 7, size: 7, names: dayNames}
	yearField   = field{name: "year", min: firstListedYear, max: lastListedYear,
		size: lastListedYear - firstListedYear + 1}
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

func (s *Schedule) parseCron(text span, loc *time.Location, literal bool) *Error {
	words := fields(text)
	switch len(words) {
	case 5:
		words = append([]span{{"0", text.pos}}, words...)
	case 6, 7:
	default:
		return text.fail("schedule", "%d fields; want 5 (minute first), 6 (second first) or 7 (year last)",
			len(words))
	}
	c := &cronRule{loc: loc, anyYear: true}
	if err := c.parseTimes(words[0], words[1], words[2]); err != nil {
		return err
	}
	if err := c.parseDates(words[3:]); err != nil {
		return err
	}
	if literal {
		c.fixed = false
	}
	s.rule = c
	return c.refuseImpossible(words[3:])
}

func (c *cronRule) parseTimes(second, minute, hour span) *Error {
	var values [3]bitset
	c.fixed = true
	for i, f := range []*field{&secondField, &minuteField, &hourField} {
		text := [...]span{second, minute, hour}[i]
		if err := f.parse(text, &values[i], nil); err != nil {
			return err
		}
		if strings.ContainsAny(text.text, "*?/") {
			c.fixed = false
		}
	}
	c.second, c.minute, c.hour = values[0][0], values[1][0], uint32(values[2][0])
	c.earliest = lowest(c.hour)*3600 + lowest(c.minute)*60 + lowest(c.second)
	return nil
}

// parseDates reads day of month, month, day of week and perhaps year.
func (c *cronRule) parseDates(words []span) *Error {
	dom, month, dow := words[0], words[1], words[2]
	if err := c.days.parseDom(dom); err != nil {
		return err
	}
	var months bitset
	if err := monthField.parse(month, &months, nil); err != nil {
		return err
	}
	c.month = uint32(months[0])
	if err := c.days.parseDow(dow); err != nil {
		return err
	}
	if len(words) < 4 || words[3].text == "*" {
		return nil
	}
	c.anyYear = false
	return yearField.parse(words[3], &c.year, nil)
}

// parse adds the values of a comma list to the set. special, if given, sees each item first and says whether
// it took it.
func (f *field) parse(list span, into *bitset, special func(item span) (bool, *Error)) *Error {
	for {
		item, last := list, true
		if comma := strings.IndexByte(list.text, ','); comma >= 0 {
			item, list, last = list.to(comma), list.from(comma+1), false
		}
		if item.text == "" {
			return item.fail(f.name, "an item of the list is missing")
		}
		taken := false
		if special != nil {
			var err *Error
			if taken, err = special(item); err != nil {
				return err
			}
		}
		if !taken {
			if err := f.parseItem(item, into); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// parseItem reads *, a, a-b and each with /n.
func (f *field) parseItem(item span, into *bitset) *Error {
	head := item
	slash := strings.IndexByte(item.text, '/')
	if slash >= 0 {
		head = item.to(slash)
	}
	low, high, err := f.bounds(head, slash >= 0)
	if err != nil {
		return err
	}
	step := 1
	if slash >= 0 {
		if step, err = f.step(item.from(slash + 1)); err != nil {
			return err
		}
	}
	for v := low; v <= high; v += step {
		into.add(f.index(v))
	}
	return nil
}

// bounds gives the range to step through; high is past the end of the cycle when it wraps around.
func (f *field) bounds(head span, stepped bool) (low, high int, err *Error) {
	last := f.min + f.size - 1
	if head.text == "*" {
		return f.min, last, nil
	}
	dash := strings.IndexByte(head.text, '-')
	if dash < 0 {
		if low, err = f.value(head); err != nil || !stepped {
			return low, low, err
		}
		return f.min + (low-f.min)%f.size, last, nil // 7/2 in day of week is 0/2
	}
	if low, err = f.value(head.to(dash)); err != nil {
		return 0, 0, err
	}
	if high, err = f.value(head.from(dash + 1)); err != nil {
		return 0, 0, err
	}
	if low > high {
		if f == &yearField {
			return 0, 0, head.fail(f.name, "%d-%d runs backwards; write %d-%d", low, high, high, low)
		}
		high += f.size
	}
	return low, high, nil
}

// index is where a value goes in a bitset: years count from the first, the rest is its own value in its
// cycle.
func (f *field) index(v int) int {
	v = (v - f.min) % f.size
	if f == &yearField {
		return v
	}
	return v + f.min
}

// step reads a step. One that is longer than the cycle leaves the first value only, as in every other cron;
// see [Schedule.Warnings].
func (f *field) step(text span) (int, *Error) {
	n, ok := number(text.text)
	switch {
	case !ok:
		return 0, text.fail(f.name, "%s is not a step; write a number from 1 on after the /", quote(text.text))
	case n < 1:
		return 0, text.fail(f.name, "a step of 0 never moves on; write a number from 1 on after the /")
	}
	return int(min(n, int64(f.size))), nil
}

// value reads a number or a name.
func (f *field) value(text span) (int, *Error) {
	if n, ok := number(text.text); ok {
		if n < int64(f.min) || n > int64(f.max) {
			return 0, text.fail(f.name, "%s is out of range %d-%d", shorten(text.text), f.min, f.max)
		}
		return int(n), nil
	}
	for i, name := range f.names {
		if strings.EqualFold(text.text, name) {
			return f.first + i, nil
		}
	}
	switch text.text {
	case "":
		return 0, text.fail(f.name, "a value is missing; want %s", f.wanted())
	case "?":
		return 0, text.fail(f.name, "? stands alone and only in the day fields; write *")
	}
	return 0, text.fail(f.name, "%s is not %s", quote(text.text), f.wanted())
}

func (f *field) wanted() string {
	if f.names == nil {
		return fmt.Sprintf("a number %d-%d", f.min, f.max)
	}
	return fmt.Sprintf("a number %d-%d or a name %s-%s", f.min, f.max, f.names[0], f.names[len(f.names)-1])
}

// number reads decimal digits and nothing else; from 2^40 on it is just a very large number.
func number(text string) (n int64, ok bool) {
	const large = 1 << 40
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = min(n*10+int64(digit), large)
	}
	return n, text != ""
}

package checker

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is an expression as plain sets. What harnesses have no need of (L, W and # in the day fields) is
// refused.
type cron struct {
	second, minute, hour, dom, month, dow, year map[int]bool
	domAny, dowAny                              bool // * or ?
	both                                        bool // + before the day of week: both day fields must match
	fixed                                       bool // no *, ? or / in second, minute and hour
	literal                                     bool
	loc                                         *time.Location
}

var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

var monthNames = strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")
var dayNames = strings.Fields("SUN MON TUE WED THU FRI SAT")

// parseCron reads 5, 6 or 7 fields, a macro, and a time zone in front.
func parseCron(text string, loc *time.Location, literal bool) (*cron, error) {
	text = strings.TrimSpace(text)
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			zone, after, _ := strings.Cut(rest, " ")
			l, err := time.LoadLocation(zone)
			if err != nil {
				return nil, fmt.Errorf("cron %q: %w", text, err)
			}
			loc, text = l, strings.TrimSpace(after)
		}
	}
	if m, ok := macros[strings.ToLower(text)]; ok {
		text = m
	}
	f := strings.Fields(text)
	switch len(f) {
	case 5:
		f = append([]string{"0"}, append(f, "*")...)
	case 6:
		f = append(f, "*")
	case 7:
	default:
		return nil, fmt.Errorf("cron %q: %d fields; the oracle knows 5, 6 and 7", text, len(f))
	}
	c := &cron{loc: loc, literal: literal, fixed: !strings.ContainsAny(f[0]+f[1]+f[2], "*?/")}
	c.domAny, c.dowAny = f[3] == "*" || f[3] == "?", f[5] == "*" || f[5] == "?"
	f[5], c.both = strings.TrimPrefix(f[5], "+"), strings.HasPrefix(f[5], "+")
	err := c.fill(f)
	return c, err
}

func (c *cron) fill(f []string) error {
	for i, field := range []struct {
		set       *map[int]bool
		low, high int
		names     []string
	}{
		{&c.second, 0, 59, nil}, {&c.minute, 0, 59, nil}, {&c.hour, 0, 23, nil}, {&c.dom, 1, 31, nil},
		{&c.month, 1, 12, monthNames}, {&c.dow, 0, 7, dayNames}, {&c.year, 1970, 2199, nil},
	} {
		set, err := fieldSet(strings.ToUpper(f[i]), field.low, field.high, field.names)
		if err != nil {
			return err
		}
		*field.set = set
	}
	if c.dow[7] {
		c.dow[0] = true
	}
	return nil
}

// fieldSet is the values of a field.
func fieldSet(text string, low, high int, names []string) (map[int]bool, error) {
	set := map[int]bool{}
	for item := range strings.SplitSeq(text, ",") {
		body, stepText, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("cron field %q: %q is not a step the oracle knows", text, stepText)
			}
			step = n
		}
		from, to, err := bounds(body, stepped, low, high, names)
		if err != nil {
			return nil, err
		}
		if to < from { // it wraps around, over the values that there are: 7 is 0 again
			to += high + 1 - low
			if high == 7 {
				to--
			}
		}
		for v := from; v <= to; v += step {
			n := v
			if v > high || (high == 7 && to > high && v >= high) {
				if n = v - (high + 1 - low); high == 7 {
					n++
				}
			}
			set[n] = true
		}
	}
	return set, nil
}

func bounds(body string, stepped bool, low, high int, names []string) (from, to int, err error) {
	if body == "*" || body == "?" {
		if high == 7 {
			high = 6
		}
		return low, high, nil
	}
	first, last, isRange := strings.Cut(body, "-")
	if from, err = value(first, low, high, names); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		to, err = value(last, low, high, names)
	case stepped && high == 7:
		to = 6
	case stepped:
		to = high
	default:
		to = from
	}
	return from, to, err
}

func value(text string, low, high int, names []string) (int, error) {
	for i, n := range names {
		if n == text {
			return i + low, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("cron value %q: the oracle knows %d to %d", text, low, high)
	}
	return n, nil
}

// date reports whether the day of a wall clock time matches.
func (c *cron) date(t time.Time) bool {
	if !c.month[int(t.Month())] || !c.year[t.Year()] {
		return false
	}
	dom, dow := c.dom[t.Day()], c.dow[int(t.Weekday())]
	if c.both || c.domAny || c.dowAny {
		return dom && dow
	}
	return dom || dow
}

// inMinute reports whether a wall clock time matches, its seconds left aside.
func (c *cron) inMinute(t time.Time) bool {
	return c.minute[t.Minute()] && c.hour[t.Hour()] && c.date(t)
}

// wall is what the clocks show at t, as if that were UTC.
func wall(t time.Time, loc *time.Location) time.Time {
	here := t.In(loc)
	y, m, d := here.Date()
	h, min, s := here.Clock()
	return time.Date(y, m, d, h, min, s, here.Nanosecond(), time.UTC)
}

// makeUpAtMost is the longest change of the clocks that is daylight saving; a longer one is a change of the
// calendar.
const makeUpAtMost = 3 * time.Hour

// instants walks from minute to minute and looks at the clock.
func (c *cron) instants(from, to time.Time) (out []time.Time) {
	var shownUntil time.Time
	start := from.UTC().Truncate(time.Minute)
	if c.fixed && !c.literal {
		start = start.Add(-makeUpAtMost - time.Hour) // an hour may be occurring twice already
	}
	before := wall(start.Add(-time.Minute), c.loc)
	for t := start; !t.After(to); t = t.Add(time.Minute) {
		now := wall(t, c.loc)
		made := false
		if jump := now.Sub(before) - time.Minute; c.fixed && !c.literal && jump != 0 {
			switch {
			case jump > 0 && jump <= makeUpAtMost:
				for gone := before.Add(time.Minute); gone.Before(now); gone = gone.Add(time.Minute) {
					made = made || c.inMinute(gone)
				}
			case jump < 0 && -jump <= makeUpAtMost:
				shownUntil = before
			}
		}
		before = now
		again := c.fixed && !c.literal && !now.After(shownUntil)
		if !made && (again || !c.inMinute(now)) {
			continue
		}
		matches := !again && c.inMinute(now)
		for s := range 60 {
			at := t.Add(time.Duration(s) * time.Second)
			if (s == 0 && made || matches && c.second[s]) && !at.Before(from) && !at.After(to) {
				out = append(out, at)
			}
		}
	}
	return out
}

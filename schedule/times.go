package schedule

import (
	"strings"
	"time"
)

// ParseTime reads a point in time: RFC 3339 ("2026-01-01T09:00:00Z"), or a duration from now, in Go's form
// ("90s", "1h30m") or ISO 8601 ("PT3S", "P1M"; its years, months, weeks and days keep the wall clock of loc,
// nil = UTC). relative tells which it was. The result is in UTC; a duration must not be negative, and the
// result lies before the year 10000. Errors are *Error, with field "time".
func ParseTime(text string, now time.Time, loc *time.Location) (t time.Time, relative bool, err error) {
	if loc == nil {
		loc = time.UTC
	}
	t, relative, fault := parseTime(trim(span{text, 0}), now, loc)
	if fault != nil {
		fault.Expr = text
		return time.Time{}, relative, fault
	}
	return t, relative, nil
}

func parseTime(text span, now time.Time, loc *time.Location) (t time.Time, relative bool, err *Error) {
	const field = "time"
	if text.text == "" {
		return t, false, text.fail(field, "empty; write RFC 3339, or a duration from now such as 90s or PT90S")
	}
	if len(text.text) > 4 && text.text[4] == '-' && text.text[0] <= '9' {
		t, err = parseInstant(text, field)
		return t, false, err
	}
	var p period
	_, wrong := time.ParseDuration(text.text)
	switch {
	case text.text[0] == 'P':
		p, err = parseISO(text, field)
	case wrong != nil && !wellFormed(text.text):
		return t, true, text.fail(field,
			"%s is neither RFC 3339, such as 2026-01-01T09:00:00Z, nor a duration from now such as 90s or PT90S",
			quote(text.text))
	default:
		p.elapsed, err = parseSpan(text, field)
	}
	if err != nil {
		return t, true, err
	}
	ok := inRange(now)
	if ok {
		t, ok = p.after(now, loc, 1)
	}
	if !ok {
		return t, true, text.fail(field, "%s from now is outside the years 1-9999", quote(text.text))
	}
	return t, true, nil
}

// OnCalendar reports whether [ParseTime] of the text goes by the wall clock of a time zone: whether it is a
// duration with years, months, weeks or days.
func OnCalendar(text string) bool {
	s := trim(span{text, 0})
	if s.text == "" || s.text[0] != 'P' {
		return false
	}
	p, err := parseISO(s, "time")
	return err == nil && (p.months != 0 || p.days != 0)
}

// ParseDuration reads a duration in Go's form ("90s", "1h30m") or ISO 8601 ("PT90S", "P1DT12H"; a day is 24
// hours, a week 7 days). Years and months have no fixed length and are refused, as are negative durations.
// Errors are *Error, with field "duration".
func ParseDuration(text string) (time.Duration, error) {
	d, err := parseSpan(trim(span{text, 0}), "duration")
	if err != nil {
		err.Expr = text
		return 0, err
	}
	return d, nil
}

// parseSpan reads a length of time that is the same whenever it starts.
func parseSpan(text span, field string) (time.Duration, *Error) {
	if strings.HasPrefix(text.text, "P") {
		p, err := parseISO(text, field)
		switch {
		case err != nil:
			return 0, err
		case p.months != 0:
			return 0, text.fail(field, "%s has years or months, whose length varies", quote(text.text))
		case p.days > int64((maxDuration-p.elapsed)/(24*time.Hour)):
			return 0, tooLong(text, field)
		}
		return p.elapsed + time.Duration(p.days)*24*time.Hour, nil
	}
	d, err := time.ParseDuration(text.text)
	switch {
	case text.text == "":
		return 0, text.fail(field, "a duration is missing; write for example 90s, 1h30m or PT90S")
	case err != nil && wellFormed(text.text):
		return 0, tooLong(text, field)
	case err != nil:
		return 0, text.fail(field, "%s is not a duration; write for example 90s, 1h30m or PT90S", quote(text.text))
	case d < 0:
		return 0, text.fail(field, "%s is negative", quote(text.text))
	}
	return d, nil
}

// wellFormed reports whether a text that is no duration would be one if its numbers were smaller.
func wellFormed(text string) bool {
	// with what is before it, "0" is no duration either
	_, err := time.ParseDuration("0s" + strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return '0'
		}
		return c
	}, text))
	return err == nil
}

// parseInstant reads RFC 3339 strictly.
func parseInstant(text span, field string) (time.Time, *Error) {
	var t time.Time
	if err := t.UnmarshalText([]byte(text.text)); err != nil {
		return time.Time{}, text.fail(field, "%s is not RFC 3339; write for example 2026-01-01T09:00:00Z",
			quote(text.text))
	}
	if !inRange(t) {
		return time.Time{}, text.fail(field, "%s is outside the years 1-9999", quote(text.text))
	}
	return t.UTC(), nil
}

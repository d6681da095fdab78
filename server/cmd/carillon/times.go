package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// ago says for people when t is, seen from now: "in 5m", "3d ago". The zero time is empty.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	switch d := t.Sub(now); {
	case d >= time.Second:
		return "in " + roughly(d)
	case d <= -time.Second:
		return roughly(-d) + " ago"
	}
	return "now"
}

// roughly writes a duration with its one or two largest units: 45s, 12m, 2h5m, 3d4h, 21d, 2y30d.
func roughly(d time.Duration) string {
	units := []struct {
		span time.Duration
		name string
	}{{365 * 24 * time.Hour, "y"}, {24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"},
		{time.Second, "s"}}
	for i, u := range units {
		if d < u.span {
			continue
		}
		n := d / u.span
		text := strconv.FormatInt(int64(n), 10) + u.name
		if i+1 < len(units) && n < 10 {
			if rest := d % u.span / units[i+1].span; rest > 0 {
				text += strconv.FormatInt(int64(rest), 10) + units[i+1].name
			}
		}
		return text
	}
	return d.Round(time.Millisecond).String()
}

// localTime writes t in this machine's time zone; the zero time is empty.
func localTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// localAndAgo writes t in this machine's time zone and says how far it is from now.
func localAndAgo(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s)", localTime(t), ago(t, now))
}

// took is how long something took, or has taken so far; empty if it has not begun.
func took(began, ended, now time.Time) string {
	if began.IsZero() {
		return ""
	}
	if ended.IsZero() {
		ended = now
	}
	d := max(0, ended.Sub(began))
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	return roughly(d)
}

// timeColumn is a column of times, as they are seen from now.
func timeColumn[T any](name string, at func(*T) time.Time) column[T] {
	return column[T]{gridColumn: gridColumn{name: name},
		cell:  func(v *T) string { return dash(ago(at(v), time.Now())) },
		order: func(a, b *T) int { return unlessNever(at(a), at(b)) }}
}

// wideTime is a column of times of -o wide.
func wideTime[T any](name string, at func(*T) time.Time) column[T] {
	c := timeColumn(name, at)
	c.wide, c.cell = true, func(v *T) string { return dash(localTime(at(v))) }
	return c
}

// unlessNever orders times; the zero time comes last.
func unlessNever(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		return cmp.Compare(strconv.FormatBool(a.IsZero()), strconv.FormatBool(b.IsZero()))
	}
	return a.Compare(b)
}

// numberColumn is a column of numbers.
func numberColumn[T any](name string, of func(*T) int) column[T] {
	return column[T]{gridColumn: gridColumn{name: name},
		cell:  func(v *T) string { return strconv.Itoa(of(v)) },
		order: func(a, b *T) int { return cmp.Compare(of(a), of(b)) }}
}

// textColumn is a column of texts that may be shortened.
func textColumn[T any](name string, of func(*T) string) column[T] {
	return column[T]{gridColumn: gridColumn{name: name, clip: true},
		cell: func(v *T) string { return dash(of(v)) }}
}

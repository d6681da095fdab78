package checker

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// period is an ISO 8601 duration: the wall clock's part and the elapsed part.
type period struct {
	months, days int
	elapsed      time.Duration
}

func parsePeriod(text string) (period, error) {
	var p period
	date, clock, _ := strings.Cut(strings.ToUpper(text), "T")
	rest, ok := strings.CutPrefix(date, "P")
	if !ok || len(text) < 3 {
		return p, fmt.Errorf("period %q: the oracle knows P…T…", text)
	}
	for part, units := range map[string]string{rest: "YMWD", clock: "HMS"} {
		for part != "" {
			i := strings.IndexAny(part, "YMWDHS")
			if i <= 0 || !strings.ContainsRune(units, rune(part[i])) {
				return p, fmt.Errorf("period %q: %q is not a part that the oracle knows", text, part)
			}
			n, err := strconv.ParseFloat(strings.Replace(part[:i], ",", ".", 1), 64)
			if err != nil {
				return p, fmt.Errorf("period %q: %w", text, err)
			}
			p.add(n, part[i], units == "HMS")
			part = part[i+1:]
		}
	}
	return p, nil
}

func (p *period) add(n float64, unit byte, clock bool) {
	switch {
	case clock:
		units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second}
		p.elapsed += time.Duration(n * float64(units[unit]))
	case unit == 'Y':
		p.months += int(n) * 12
	case unit == 'M':
		p.months += int(n)
	case unit == 'W':
		p.days += int(n) * 7
	default:
		p.days += int(n)
	}
}

// parseSpan is a Go duration or an ISO 8601 one whose days are 24 hours.
func parseSpan(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	p, err := parsePeriod(text)
	if err != nil || p.months != 0 {
		return 0, fmt.Errorf("duration %q: the oracle knows 90s and PT90S", text)
	}
	return p.elapsed + time.Duration(p.days)*24*time.Hour, nil
}

// longest is no shorter than any one step, for leaving out steps that are surely too early.
func (p period) longest() time.Duration {
	return time.Duration(p.months*31+p.days+1)*24*time.Hour + p.elapsed
}

// at is anchor + k periods: months, clamped from the anchor's day, then days by the wall clock, then elapsed
// time.
func (p period) at(anchor time.Time, k int, loc *time.Location) time.Time {
	if p.months == 0 && p.days == 0 {
		return anchor.Add(time.Duration(k) * p.elapsed)
	}
	w := wall(anchor, loc)
	first := time.Date(w.Year(), w.Month()+time.Month(p.months*k), 1, 0, 0, 0, 0, time.UTC)
	lastDay := first.AddDate(0, 1, -1).Day()
	day := first.AddDate(0, 0, min(w.Day(), lastDay)-1+p.days*k)
	midnight := time.Date(w.Year(), w.Month(), w.Day(), 0, 0, 0, 0, time.UTC)
	shown := day.Add(w.Sub(midnight))
	if shown.Equal(w) {
		return anchor.Add(time.Duration(k) * p.elapsed)
	}
	return showing(shown, loc).Add(time.Duration(k) * p.elapsed)
}

// showing is the first instant at which the clocks show a time, or that at which the gap ends in which it
// lies.
func showing(shown time.Time, loc *time.Location) time.Time {
	start := shown.Add(-26 * time.Hour)
	if _, a := start.In(loc).Zone(); a == offset(shown.Add(26*time.Hour), loc) &&
		wall(shown.Add(-time.Duration(a)*time.Second), loc).Equal(shown) {
		return shown.Add(-time.Duration(a) * time.Second).UTC()
	}
	before := wall(start, loc)
	for t := start; ; t = t.Add(time.Second) {
		now := wall(t, loc)
		if now.Equal(shown) || (before.Before(shown) && now.After(shown)) {
			return t.UTC()
		}
		before = now
	}
}

func offset(t time.Time, loc *time.Location) int {
	_, o := t.In(loc).Zone()
	return o
}

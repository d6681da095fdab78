package checker

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// schedule is the naive reading of a job's schedule.
type schedule struct {
	cron     *cron
	step     period
	anchored bool      // steps count from the job's first due time
	base     time.Time // of steps that are not anchored: any of their times, or the first if from is set
	from     bool      // nothing happens before base
	runs     int       // Rn; 0 = no limit
	loc      *time.Location
}

// parse reads a schedule. What it does not know it refuses, so that nobody is judged by a guess.
func parse(text, zone string, literal bool) (*schedule, error) {
	loc, err := time.LoadLocation(cmp.Or(zone, "UTC"))
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w", zone, err)
	}
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "@every"):
		return parseEvery(strings.TrimSpace(strings.TrimPrefix(text, "@every")))
	case strings.HasPrefix(text, "R") && !strings.Contains(text, " "):
		return parseRepeat(text, loc)
	}
	c, err := parseCron(text, loc, literal)
	if err != nil {
		return nil, err
	}
	return &schedule{cron: c, loc: c.loc}, nil
}

func parseEvery(text string) (*schedule, error) {
	text, phase, phased := strings.Cut(text, "/")
	d, err := parseSpan(text)
	if err != nil || d <= 0 {
		return nil, fmt.Errorf("@every %q: not an interval that the oracle knows", text)
	}
	s := &schedule{step: period{elapsed: d}, anchored: !phased, loc: time.UTC}
	if phased {
		p, err := parseSpan(phase)
		if err != nil {
			return nil, err
		}
		s.base = time.Unix(0, int64(p)).UTC()
	}
	return s, nil
}

func parseRepeat(text string, loc *time.Location) (*schedule, error) {
	parts := strings.Split(text[1:], "/")
	s := &schedule{loc: loc, anchored: len(parts) == 2}
	var err error
	if parts[0] != "" {
		if s.runs, err = strconv.Atoi(parts[0]); err != nil {
			return nil, fmt.Errorf("repeat %q: %w", text, err)
		}
	}
	if len(parts) == 3 {
		if s.base, err = time.Parse(time.RFC3339Nano, parts[1]); err != nil {
			return nil, fmt.Errorf("repeat %q: %w", text, err)
		}
		s.from = true
	}
	if len(parts) < 2 || len(parts) > 3 {
		return nil, fmt.Errorf("repeat %q: the oracle knows R4/PT15M and R4/2026-01-01T00:00:00Z/PT15M", text)
	}
	s.step, err = parsePeriod(parts[len(parts)-1])
	return s, err
}

// fixedStep is the interval of a schedule whose times are all that far apart; 0 = they are not.
func (s *schedule) fixedStep() time.Duration {
	if s.cron == nil && s.step.months == 0 && s.step.days == 0 {
		return s.step.elapsed
	}
	return 0
}

// instants are the times of a stretch, both ends inclusive. anchor is a time that the schedule counts from,
// if it is anchored; nothing is before it then. The number of repeats is not looked at, except that of a
// repeat with a start.
func (s *schedule) instants(anchor, from, to time.Time) []time.Time {
	if s.cron != nil {
		return s.cron.instants(from, to)
	}
	base, k := s.base, 0
	if s.anchored {
		base = anchor
	}
	if step := s.fixedStep(); step > 0 && from.After(base) || (!s.anchored && !s.from) {
		k = floor(from.Sub(base), step)
	} else if from.After(base) {
		k = max(int(from.Sub(base)/s.step.longest())-1, 0)
	}
	var out []time.Time
	for n := range mostInstants {
		if s.from && s.runs > 0 && k+n >= s.runs {
			break
		}
		t := s.step.at(base, k+n, s.loc)
		if t.After(to) {
			break
		}
		if !t.Before(from) {
			out = append(out, t)
		}
	}
	return out
}

// mostInstants keeps a wrong history from going on for ever.
const mostInstants = 2_000_000

func floor(d, step time.Duration) int {
	k := int(d / step)
	if d < 0 && d%step != 0 {
		k--
	}
	return k
}

// is reports whether t is a time of the schedule whose anchor lies between two instants.
func (s *schedule) is(t, anchorLow, anchorHigh time.Time) bool {
	if !s.anchored {
		return len(s.instants(time.Time{}, t, t)) == 1
	}
	if step := s.fixedStep(); step > 0 {
		if t.Before(anchorLow) {
			return false
		}
		over := t.Sub(anchorLow) % step
		return over <= anchorHigh.Sub(anchorLow)
	}
	if anchorLow.Equal(anchorHigh) {
		return len(s.instants(anchorLow, t, t)) == 1
	}
	return !t.Before(anchorLow)
}

// resolved is a failure policy with its defaults.
func (p Policy) resolved(recurring bool) Policy {
	if p.Kind == "" || p.Kind == "default" {
		retries := 3
		on := p.OnExhausted
		p = Policy{Kind: "constant", Interval: time.Second, MaxRetries: &retries}
		if !recurring {
			p = Policy{Kind: "exponential"}
		}
		p.OnExhausted = on
	}
	if p.Kind == "exponential" {
		four := 4
		p.Initial, p.Factor, p.Max = cmp.Or(p.Initial, 2*time.Second), cmp.Or(p.Factor, 2), cmp.Or(p.Max, time.Hour)
		if p.MaxRetries == nil {
			p.MaxRetries = &four
		}
	}
	switch {
	case p.Kind == "drop":
		zero := 0
		p.MaxRetries, p.OnExhausted = &zero, "drop"
	case (p.OnExhausted == "" || p.OnExhausted == "default") && recurring:
		p.OnExhausted = "drop"
	case p.OnExhausted == "" || p.OnExhausted == "default":
		p.OnExhausted = "dead"
	}
	return p
}

// attempts is the most attempts that a policy allows; 0 = no limit.
func (p Policy) attempts() int {
	if p.MaxRetries == nil {
		return 0
	}
	return *p.MaxRetries + 1
}

// notBefore is the earliest next attempt after one that failed at an instant; the policy is resolved. Jitter
// only adds.
func (p Policy) notBefore(ended time.Time, number int, zone string) time.Time {
	switch p.Kind {
	case "constant":
		return ended.Add(p.Interval)
	case "exponential":
		d := float64(p.Initial) * math.Pow(p.Factor, float64(number-1))
		if !(d < float64(p.Max)) {
			return ended.Add(p.Max)
		}
		return ended.Add(time.Duration(d))
	case "schedule":
		s, err := parse(p.Cron, zone, false)
		if err != nil || s.cron == nil {
			return ended
		}
		for _, far := range []time.Duration{time.Hour, 32 * 24 * time.Hour} {
			if ts := s.cron.instants(ended.Add(1), ended.Add(far)); len(ts) > 0 {
				return ts[0]
			}
		}
	}
	return ended
}

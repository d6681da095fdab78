package schedule

import (
	"strconv"
	"strings"
	"time"
)

// parseRepeat reads an ISO 8601 repeating interval, R[n]/[start/]period (ISO 8601-1:2019, 5.6).
func (s *Schedule) parseRepeat(text span, loc *time.Location) *Error {
	var parts [3]span
	n := 0
	for rest, more := text, true; more; n++ {
		if n == len(parts) {
			return rest.fail("repeat", "too many parts; write R4/PT15M or R4/2026-01-01T00:00:00Z/PT15M")
		}
		slash := strings.IndexByte(rest.text, '/')
		if more = slash >= 0; !more {
			parts[n] = rest
			continue
		}
		parts[n], rest = rest.to(slash), rest.from(slash+1)
	}
	if n < 2 {
		return text.from(len(text.text)).fail("period", "a period is missing; write for example R4/PT15M")
	}
	if err := s.parseRuns(parts[0].from(1)); err != nil {
		return err
	}
	if n == 3 {
		if err := s.parseStart(parts[1]); err != nil {
			return err
		}
	}
	s.anchored = !s.hasStart
	return s.parsePeriod(parts[n-1], loc)
}

// isRepeat reports whether the text is meant as a repeating interval: R, and a number or a slash if anything
// follows.
func isRepeat(text string) bool {
	if text[0] != 'R' && text[0] != 'r' {
		return false
	}
	return len(text) == 1 || strings.IndexByte("/-+0123456789", text[1]) >= 0
}

func (s *Schedule) parseRuns(text span) *Error {
	if text.text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text.text, 10, 64)
	switch {
	case err != nil:
		return text.fail("repeat", "%s is not a number of runs; write R4/… for four, R/… for no limit",
			quote(text.text))
	case n == 0:
		return text.fail("repeat", "0 runs; write R4/… for four, R/… for no limit")
	}
	s.runs = n
	return nil
}

func (s *Schedule) parseStart(text span) *Error {
	t, err := parseInstant(text, "start")
	s.start, s.hasStart = t, true
	return err
}

func (s *Schedule) parsePeriod(text span, loc *time.Location) *Error {
	p, err := parseISO(text, "period")
	if err != nil {
		return err
	}
	from := series{start: s.start, anchored: s.anchored}
	if s.hasStart {
		from.runs = s.runs
	}
	switch {
	case p == period{}:
		return text.fail("period", "a period of zero never gets on; write for example PT15M")
	case p.months != 0 || p.days != 0:
		s.rule = &calendarRule{from, p, loc}
		return nil
	case p.elapsed < shortest:
		return text.fail("period", "%s is shorter than the shortest interval, %v", quote(text.text), shortest)
	}
	s.period = p.elapsed
	s.rule = &intervalRule{from, p.elapsed}
	return nil
}

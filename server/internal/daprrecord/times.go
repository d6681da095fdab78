package daprrecord

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// instantOf is the point in time that a text means to Dapr's scheduler: RFC 3339, a Go duration from now,
// also back, or an ISO 8601 duration from now.
func instantOf(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	p, err := parsePeriod(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither RFC 3339, such as 2026-01-01T09:00:00Z, nor a duration such as 90s or PT90S: %w",
			clip(text), err)
	}
	return now.AddDate(p.years, p.months, p.days).Add(p.elapsed), nil
}

// whenOf is a text whose instant is t in words that mean the same to Carillon: as they stand if they do.
// Carillon's calendar clamps (a month after 31 January is 28 February), Dapr's runs over (3 March). What is
// too early or too late for Carillon becomes the earliest or the latest time that it knows.
func whenOf(text string, t, now time.Time) carillon.When {
	if alike, _, err := schedule.ParseTime(text, now, time.UTC); err == nil && alike.Equal(t) &&
		carillon.Storable(t) {
		return carillon.WhenText(text)
	}
	switch {
	case t.Before(carillon.EarliestTime):
		t = carillon.EarliestTime
	case t.After(carillon.LatestTime):
		t = carillon.LatestTime
	}
	return carillon.At(t)
}

// period is an ISO 8601 duration.
type period struct {
	years, months, days int
	elapsed             time.Duration
}

// parsePeriod reads an ISO 8601 duration with the leniency of Dapr's: parts may come in any order, and a
// number without a letter, at the end, says nothing. A repetition is refused unless it is none (R0/).
func parsePeriod(text string) (period, error) {
	var p period
	if len(text) < 2 {
		return p, errors.New("too short")
	}
	text, err := cutRepetition(text)
	if err != nil || text == "" {
		return p, err
	}
	if text[0] != 'P' {
		return p, errors.New("no P in front")
	}
	inTime, begin := false, 1
	for i := 1; i < len(text); i++ {
		letter := text[i]
		switch {
		case letter == 'T':
			if begin != i {
				return p, errors.New("a number before T")
			}
			inTime = true
		case strings.IndexByte("YWDHSM", letter) >= 0:
			n, err := strconv.Atoi(text[begin:i])
			if err != nil || !p.add(n, letter, inTime) {
				return p, fmt.Errorf("%.64q is out of place", text[begin:i+1])
			}
		default:
			continue
		}
		begin = i + 1
	}
	return p, nil
}

// cutRepetition cuts Rn/ off.
func cutRepetition(text string) (string, error) {
	if text[0] != 'R' {
		return text, nil
	}
	count, rest, _ := strings.Cut(text[1:], "/")
	n, err := strconv.Atoi(count)
	switch {
	case err != nil:
		return "", errors.New("no number after R")
	case n > 0:
		return "", errors.New("a repetition is no point in time; repeats says how often")
	}
	return rest, nil
}

// add adds one part and reports whether it may stand there.
func (p *period) add(n int, letter byte, inTime bool) bool {
	switch {
	case inTime && letter == 'H':
		p.elapsed += time.Duration(n) * time.Hour
	case inTime && letter == 'M':
		p.elapsed += time.Duration(n) * time.Minute
	case inTime && letter == 'S':
		p.elapsed += time.Duration(n) * time.Second
	case !inTime && letter == 'Y':
		p.years = n
	case !inTime && letter == 'M':
		p.months = n
	case !inTime && letter == 'W':
		p.days += 7 * n
	case !inTime && letter == 'D':
		p.days += n
	default:
		return false
	}
	return true
}

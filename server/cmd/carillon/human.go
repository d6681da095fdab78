package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// longUnits matches the weeks and days with which a duration may begin: 2w, 1d12h.
var longUnits = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?`)

// plainDuration returns a duration with weeks and days, of 24 hours, as the API takes it; other texts as
// they are.
func plainDuration(text string) string {
	m := longUnits.FindStringSubmatch(text)
	if m[0] == "" {
		return text
	}
	weeks, _ := strconv.Atoi(m[1]) // at most four digits, or none
	days, _ := strconv.Atoi(m[2])
	hours := 24 * (7*weeks + days)
	rest := text[len(m[0]):]
	if rest == "" {
		return fmt.Sprintf("%dh", hours)
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 {
		return text // which nobody takes
	}
	return (time.Duration(hours)*time.Hour + more).String()
}

// parseSpan parses a duration of Go or ISO 8601, or one with weeks and days.
func parseSpan(text string) (time.Duration, error) {
	return schedule.ParseDuration(plainDuration(text))
}

// errNoTime is the error of a text that is no time.
var errNoTime = errors.New("it is no time; write for example 2027-01-31T08:00:00Z, 2027-01-31 08:00, 18:30, " +
	"tomorrow 09:00, monday 12:00 or now")

// timeForms are the forms of dates with a time of day, or without one.
var timeForms = []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04",
	"2006-01-02"}

// parseInstant parses a time as people write it, seen from now in a zone. A time of day alone, or a
// weekday, is the next one; a day alone begins at midnight.
func parseInstant(text string, now time.Time, zone *time.Location) (time.Time, error) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	if t, err := time.Parse(time.RFC3339, strings.ToUpper(text)); err == nil {
		return t, nil
	}
	for _, form := range timeForms {
		if t, err := time.ParseInLocation(strings.ToLower(form), text, zone); err == nil {
			return t, nil
		}
	}
	now = now.In(zone)
	if text == "now" {
		return now, nil
	}
	day, clock, _ := strings.Cut(text, " ")
	clock = strings.TrimPrefix(clock, "at ")
	offset, named := dayOffset(day, now.Weekday())
	if !named {
		day, clock = "", text
	}
	hour, minute, second, err := parseClock(clock)
	if err != nil || !named && clock == "" {
		return time.Time{}, errNoTime
	}
	on := func(days int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+days, hour, minute, second, 0, zone)
	}
	t := on(offset)
	switch {
	case t.After(now) || day == "today" || day == "yesterday":
	case day == "":
		t = on(1)
	default:
		t = on(offset + 7) // the weekday is today's, and the time is over
	}
	return t, nil
}

// dayOffset returns how many days from today a word is; a weekday is today or after it.
func dayOffset(word string, today time.Weekday) (int, bool) {
	switch word {
	case "today":
		return 0, true
	case "tomorrow":
		return 1, true
	case "yesterday":
		return -1, true
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if name := strings.ToLower(d.String()); word == name || word == name[:3] {
			return int(d-today+7) % 7, true
		}
	}
	return 0, false
}

// parseClock parses a time of day; "" is midnight.
func parseClock(text string) (hour, minute, second int, err error) {
	switch text {
	case "", "midnight":
		return 0, 0, 0, nil
	case "noon":
		return 12, 0, 0, nil
	}
	for _, form := range []string{"15:04:05", "15:04", "3:04pm", "3pm"} {
		if t, err := time.Parse(form, text); err == nil {
			return t.Hour(), t.Minute(), t.Second(), nil
		}
	}
	return 0, 0, 0, errNoTime
}

// needsZone reports whether a text is a time that means another instant in another zone.
func needsZone(text string) bool {
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return false
	}
	_, err := parseSpan(text)
	return err != nil
}

// setDue sets the first run of a job to a time as people write it, in the job's zone if it has one.
func setDue(j *carillon.Job, text string) error {
	if !needsZone(text) {
		j.Due = carillon.WhenText(plainDuration(text))
		return nil
	}
	now := time.Now()
	zone := now.Location()
	if j.TimeZone != "" {
		var err error
		if zone, err = time.LoadLocation(j.TimeZone); err != nil {
			return usagef("--time-zone: this machine knows no time zone %q, which a time such as %q needs%s",
				clip(j.TimeZone, 40), clip(text, 40), hint("; did you mean %s?", j.TimeZone, zoneNames(nil)))
		}
	}
	t, err := parseInstant(text, now, zone)
	j.Due = carillon.At(t)
	return err
}

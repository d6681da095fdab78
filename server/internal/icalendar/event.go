package icalendar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"
	"github.com/teambition/rrule-go"

	"github.com/carillonhq/carillon/schedule"
)

// event is what is known of an event when it takes place.
type event struct {
	uid, summary string
	start        moment
	length       length
	rule         string
	more, not    []moment // RDATE, EXDATE and occurrences that other events replace
	replaces     *moment  // RECURRENCE-ID
	cancelled    bool
}

// moment is a day, as midnight in UTC, or an instant.
type moment struct {
	time.Time
	day bool
}

// length is how long an event takes: days, and time besides.
type length struct {
	days int
	time time.Duration
}

// wrap says which event an error is about.
func (e *event) wrap(err error) error {
	name := fmt.Sprintf("event %.64q", e.summary)
	if e.summary == "" {
		name = "event with UID " + fmt.Sprintf("%.64q", e.uid)
	}
	if !e.start.IsZero() {
		name += " of " + e.start.Format(time.DateOnly)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// eventsOf reads the events of a file. loc is the zone of times without one.
func eventsOf(file *ics.Calendar, loc *time.Location) ([]event, error) {
	var events []event
	for _, c := range file.Events() {
		e, err := newEvent(c, loc)
		if err != nil {
			return nil, e.wrap(err)
		}
		events = append(events, e)
	}
	for i := range events { // an occurrence that was moved is an event of its own
		if r := events[i].replaces; r != nil {
			for k := range events {
				if events[k].uid == events[i].uid && events[k].replaces == nil {
					events[k].not = append(events[k].not, *r)
				}
			}
		}
	}
	return events, nil
}

func newEvent(c *ics.VEvent, loc *time.Location) (e event, err error) {
	seen := map[string]bool{}
	var end *moment
	var duration string
	for _, p := range c.Properties {
		name := strings.ToUpper(p.IANAToken)
		if once[name] && seen[name] {
			return e, fmt.Errorf("%s stands there twice", name)
		}
		seen[name] = true
		switch name {
		case "UID":
			e.uid = p.Value
		case "SUMMARY":
			e.summary = p.Value
		case "STATUS":
			e.cancelled = strings.EqualFold(p.Value, "CANCELLED")
		case "DTSTART":
			e.start, err = parseMoment(&p.BaseProperty, p.Value, loc)
		case "DTEND":
			end = new(moment)
			*end, err = parseMoment(&p.BaseProperty, p.Value, loc)
		case "DURATION":
			duration = p.Value
		case "RRULE":
			if e.rule = p.Value; e.rule == "" {
				return e, errors.New("RRULE is empty")
			}
		case "RDATE":
			e.more, err = appendMoments(e.more, &p.BaseProperty, loc)
		case "EXDATE":
			e.not, err = appendMoments(e.not, &p.BaseProperty, loc)
		case "RECURRENCE-ID":
			if p.ICalParameters["RANGE"] != nil {
				return e, errors.New("RECURRENCE-ID with RANGE is not understood; export the series as it is")
			}
			e.replaces = new(moment)
			*e.replaces, err = parseMoment(&p.BaseProperty, p.Value, loc)
		case "EXRULE":
			return e, errors.New("EXRULE is not understood; write EXDATE")
		}
		if err != nil {
			return e, fmt.Errorf("%s: %w", name, err)
		}
	}
	if !seen["DTSTART"] {
		return e, errors.New("DTSTART is missing")
	}
	e.length, err = e.lengthUntil(end, duration)
	return e, err
}

// once are the properties that an event has at most once.
var once = map[string]bool{"DTSTART": true, "DTEND": true, "DURATION": true, "RRULE": true,
	"RECURRENCE-ID": true, "UID": true}

func appendMoments(list []moment, p *ics.BaseProperty, loc *time.Location) ([]moment, error) {
	for text := range strings.SplitSeq(p.Value, ",") {
		m, err := parseMoment(p, text, loc)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// parseMoment reads a DATE or a DATE-TIME.
func parseMoment(p *ics.BaseProperty, text string, loc *time.Location) (m moment, err error) {
	layout := "20060102T150405"
	switch {
	case len(text) == len("20060102"):
		m.day, layout, loc = true, "20060102", time.UTC
	case strings.HasSuffix(text, "Z"):
		layout, loc = layout+"Z", time.UTC
	case len(p.ICalParameters["TZID"]) > 0:
		if loc, err = location(p.ICalParameters["TZID"][0]); err != nil {
			return m, err
		}
	}
	if m.Time, err = time.ParseInLocation(layout, text, loc); err != nil {
		return m, fmt.Errorf("%.64q is neither a day such as 20261225 nor a time such as 20261225T090000Z", text)
	}
	return m, nil
}

// lengthUntil returns how long the event takes.
func (e *event) lengthUntil(end *moment, duration string) (l length, err error) {
	switch {
	case end != nil && duration != "":
		return l, errors.New("it has both DTEND and DURATION")
	case end != nil && end.day != e.start.day:
		return l, errors.New("of DTSTART and DTEND one is a day and the other is not")
	case end != nil && e.start.day:
		l.days = max(int(end.Sub(e.start.Time)/(24*time.Hour)), 0)
		if end.Equal(e.start.Time) {
			l.days = 1 // many programs write the same day twice
		}
	case end != nil:
		l.time = end.Sub(e.start.Time)
	case duration != "":
		if l, err = parseLength(duration); err == nil && e.start.day && l.time != 0 {
			err = errors.New("it is an event of whole days with a DURATION that is not")
		}
	case e.start.day:
		l.days = 1
	}
	if err == nil && (l.days < 0 || l.time < 0 || l == length{}) {
		err = errors.New("it has no length; give it a DTEND after its DTSTART, or a DURATION")
	}
	return l, err
}

// parseLength reads a DURATION. Its days are days of the calendar, its hours hours.
func parseLength(text string) (l length, err error) {
	date, clock, timed := strings.Cut(strings.TrimPrefix(text, "+"), "T")
	if timed {
		if l.time, err = schedule.ParseDuration("PT" + clock); err != nil {
			return l, fmt.Errorf("DURATION: %w", err)
		}
		if date == "P" {
			return l, nil
		}
	}
	d, err := schedule.ParseDuration(date)
	if err != nil {
		return l, fmt.Errorf("DURATION: %w", err)
	}
	l.days = int(d / (24 * time.Hour))
	return l, nil
}

// at returns the occurrence that begins at a time.
func (e *event) at(start time.Time) occurrence {
	return occurrence{start, start.AddDate(0, 0, e.length.days).Add(e.length.time), e.start.day}
}

// occurrences returns when the event takes place from a time until another one, and whether it goes on
// without end.
func (e *event) occurrences(from, until time.Time) (out []occurrence, endless bool, err error) {
	if e.cancelled {
		return nil, false, nil
	}
	starts, err := e.series()
	if err != nil {
		return nil, false, err
	}
	if r := starts.GetRRule(); r != nil {
		endless = r.OrigOptions.Count == 0 && r.OrigOptions.Until.IsZero()
	}
	const most = 100_000 // starts that are looked at, of a rule that may begin long ago
	next := starts.Iterator()
	for range most {
		start, ok := next()
		if !ok || !start.Before(until) {
			return out, endless, nil
		}
		if o := e.at(start); o.until.After(from) {
			out = append(out, o)
		}
	}
	return nil, false, fmt.Errorf("it takes place more than %d times", most)
}

// series returns when the event begins.
func (e *event) series() (*rrule.Set, error) {
	set := &rrule.Set{}
	set.DTStart(e.start.Time)
	if e.rule == "" {
		set.RDate(e.start.Time)
	} else {
		r, err := e.parseRule()
		if err != nil {
			return nil, fmt.Errorf("RRULE %.128q: %w", e.rule, err)
		}
		set.RRule(r)
	}
	for _, m := range e.more {
		if m.day != e.start.day {
			return nil, errors.New("of DTSTART and RDATE one is a day and the other is not")
		}
		set.RDate(m.Time)
	}
	for _, m := range e.not {
		if m.day == e.start.day {
			set.ExDate(m.Time)
		} else {
			set.ExDate(e.onDay(m))
		}
	}
	return set, nil
}

// onDay is the occurrence of a series of times on a day, or the day of a time for a series of days: some
// programs write the one for the other.
func (e *event) onDay(m moment) time.Time {
	y, month, d := m.Date()
	if e.start.day {
		return time.Date(y, month, d, 0, 0, 0, 0, time.UTC)
	}
	h, minute, s := e.start.Clock()
	return time.Date(y, month, d, h, minute, s, 0, e.start.Location())
}

// parseRule reads the RRULE.
func (e *event) parseRule() (*rrule.RRule, error) {
	untilDay := false
	for part := range strings.SplitSeq(strings.ToUpper(e.rule), ";") {
		name, value, _ := strings.Cut(part, "=")
		if !ruleParts[name] {
			return nil, fmt.Errorf("%.32q is not understood", name)
		}
		if n, err := strconv.Atoi(value); counted[name] && (err != nil || n < 1) {
			return nil, fmt.Errorf("%s is %.32q, and must be a number from 1", name, value)
		}
		untilDay = untilDay || name == "UNTIL" && len(value) == len("20060102")
	}
	o, err := rrule.StrToROptionInLocation(strings.ToUpper(e.rule), e.start.Location())
	if err != nil {
		return nil, err
	}
	if o.Freq > rrule.DAILY {
		return nil, errors.New("it is to repeat within a day; a calendar has days and spans of time")
	}
	o.Dtstart = e.start.Time
	if untilDay && !e.start.day {
		o.Until = o.Until.AddDate(0, 0, 1).Add(-time.Second) // all of the day
	}
	return rrule.NewRRule(*o)
}

// counted are the parts of an RRULE that are numbers from 1.
var counted = map[string]bool{"COUNT": true, "INTERVAL": true}

// ruleParts are the parts of an RRULE that are understood.
var ruleParts = map[string]bool{"FREQ": true, "UNTIL": true, "COUNT": true, "INTERVAL": true, "WKST": true,
	"BYMONTH": true, "BYMONTHDAY": true, "BYYEARDAY": true, "BYWEEKNO": true, "BYDAY": true, "BYSETPOS": true}

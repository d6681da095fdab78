package carillon

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/schedule"
)

// Calendar is a named set of dates of a namespace, to which schedules refer ([CalendarRules]). A job looks at
// it when a time is due: a calendar that is put holds for all jobs that name it, at once on the node that
// keeps it, and within 5 s on the others.
type Calendar struct {
	Namespace string
	Name      string // 1 to 63 bytes of a-z, A-Z, 0-9, "-", "_" and "."
	TimeZone  string // IANA name, of the days; default UTC
	// At most MaxCalendarDates, of the years 1970 to 2199: "2026-12-25", "12-25" of every year, the same from
	// and to inclusive as "2026-12-24/2027-01-01" and "12-24/01-01", and spans from an instant to before
	// another one as "2026-12-24T12:00:00Z/2026-12-24T18:00:00Z".
	Dates []string
	Note  string // for people
	// Generation counts the changes of the calendar, from 1. In a put, if not 0, it is the generation that
	// the calendar is meant to replace.
	Generation uint64
}

// Bounds on calendars.
const (
	MaxCalendars      = 100  // in a namespace
	MaxCalendarDates  = 1000 // in a calendar
	MaxCalendarsOfJob = 16   // in except, and in only
	MaxCalendarName   = 63   // bytes
)

// CalendarQuery selects a page of the calendars of a namespace, in name order.
type CalendarQuery struct {
	Namespace string
	PageSize  int // default 100, at most MaxBatch
	PageToken string
}

// CalendarPage is one page; an empty NextPageToken marks the last one.
type CalendarPage struct {
	Calendars     []Calendar
	NextPageToken string
}

// Validate returns an error about the first wrong field. The page token is checked by the node that made it.
func (q *CalendarQuery) Validate() error { return checkQueried(q.Namespace, q.PageSize) }

// Key returns the calendar's namespace and name.
func (c *Calendar) Key() Key { return Key{c.Namespace, c.Name} }

// Validate returns an error about the first wrong field. An empty namespace is the default one.
func (c *Calendar) Validate() error {
	if err := checkQueried(c.Namespace, 0); err != nil {
		return err
	}
	lim := DefaultBounds()
	if err := cmp.Or(checkCalendarName("name", c.Name), checkNote(c.Note, &lim)); err != nil {
		return err
	}
	_, err := c.Parse()
	return err
}

// Parse returns the calendar's dates, or an error about the first wrong field among them and the time zone.
func (c *Calendar) Parse() (*schedule.Dates, error) {
	loc, err := location(c.TimeZone)
	if err != nil {
		return nil, err
	}
	if len(c.Dates) > MaxCalendarDates {
		return nil, invalid("dates", "%d dates are more than %d", len(c.Dates), MaxCalendarDates)
	}
	for i, text := range c.Dates {
		if len(text) > maxDateText {
			return nil, tooLarge(fmt.Sprintf("dates[%d]", i), len(text), maxDateText)
		}
	}
	d, wrong, err := schedule.ParseDates(c.Dates, loc)
	if err != nil {
		return nil, scheduleError(fmt.Sprintf("dates[%d]", wrong), err)
	}
	return d, nil
}

// maxDateText is the length of two RFC 3339 times with nanoseconds, in bytes.
const maxDateText = 71

// Over returns the result of putting c over old, nil if there is none; the generation grows if anything
// changes. A put meant for another generation is refused.
func (c Calendar) Over(old *Calendar) (Calendar, error) {
	switch {
	case old == nil && c.Generation != 0:
		return c, Errorf(FailedPrecondition, "generation", "calendar %q does not exist", c.Name)
	case old == nil:
		c.Generation = 1
		return c, nil
	case c.Generation != 0 && c.Generation != old.Generation:
		return c, Errorf(FailedPrecondition, "generation", "calendar %q is at generation %d", c.Name, old.Generation)
	}
	c.Generation = old.Generation
	if c.TimeZone != old.TimeZone || c.Note != old.Note || !slices.Equal(c.Dates, old.Dates) {
		c.Generation++
	}
	return c, nil
}

const calendarLetters = namespaceLetters + "_."

func checkCalendarName(field, name string) error {
	switch {
	case name == "":
		return invalid(field, "it is missing")
	case len(name) > MaxCalendarName:
		return tooLarge(field, len(name), MaxCalendarName)
	case strings.Trim(name, calendarLetters) != "":
		return invalid(field, "%q has a character other than a-z, A-Z, 0-9, -, _ and .", clip(name))
	case strings.Trim(name, ".") == "":
		return invalid(field, "%q is nothing but dots, which HTTP clients take out of a path", clip(name))
	}
	return nil
}

// Validate returns an error about the first wrong field.
func (r *CalendarRules) Validate() error {
	return cmp.Or(dstWords.check(uint8(r.DST)), checkCalendarNames("except", r.Except),
		checkCalendarNames("only", r.Only))
}

func checkCalendarNames(field string, names []string) error {
	if len(names) > MaxCalendarsOfJob {
		return invalid(field, "%d calendars are more than %d", len(names), MaxCalendarsOfJob)
	}
	for i, name := range names {
		if err := checkCalendarName(fmt.Sprintf("%s[%d]", field, i), name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return invalid(fmt.Sprintf("%s[%d]", field, i), "%q is named twice", clip(name))
		}
	}
	return nil
}

// among returns the filter with the calendars given, all of which must be there.
func (r *CalendarRules) among(calendars []Calendar) (*schedule.Filter, error) {
	parsed := map[string]*schedule.Dates{}
	for i := range calendars {
		d, err := calendars[i].Parse()
		if err != nil {
			return nil, err
		}
		parsed[calendars[i].Name] = d
	}
	err := r.CheckKnown(func(name string) bool { return parsed[name] != nil })
	return r.Filter(func(name string) *schedule.Dates { return parsed[name] }), err
}

// CheckKnown returns an error about the first calendar that is not known.
func (r *CalendarRules) CheckKnown(known func(name string) bool) error {
	for _, list := range []struct {
		field string
		names []string
	}{{"except", r.Except}, {"only", r.Only}} {
		for i, name := range list.names {
			if !known(name) {
				return Errorf(FailedPrecondition, fmt.Sprintf("%s[%d]", list.field, i),
					"there is no calendar %q in the namespace; put it first", name)
			}
		}
	}
	return nil
}

// Package icalendar reads the dates of a calendar from an iCalendar file (RFC 5545): those on which its
// events take place, within a stretch of time. So a node need not know iCalendar, nor rules that go on
// without end.
//
// Of an event it reads DTSTART with DTEND or DURATION, RRULE (yearly, monthly, weekly or daily), RDATE,
// EXDATE, and RECURRENCE-ID, as days or as times in UTC, in a TZID that is an IANA name, or without a zone.
// Events with STATUS:CANCELLED do not take place. Components other than events, as VTIMEZONE, are left out.
// Whatever else would change when an event takes place is an error that names the event.
package icalendar

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"

	"github.com/carillonhq/carillon"
)

// MaxBytes is the size of the largest file that is read.
const MaxBytes = 16 << 20

// Options are what a file does not say.
type Options struct {
	// Location is the zone of days, and of times without a zone. nil is the zone that the file names by
	// X-WR-TIMEZONE, or UTC.
	Location *time.Location
	// Events that end before From or begin at Until or later are left out.
	From, Until time.Time
}

// Dates are the dates of a file, as a calendar takes them.
type Dates struct {
	Location *time.Location
	Dates    []string // in order, each once
	Events   int      // events that take place on them
	Endless  bool     // some events go on without end, beyond Options.Until
}

// Read reads a file.
func Read(r io.Reader, o Options) (*Dates, error) {
	limited := &io.LimitedReader{R: r, N: MaxBytes + 1}
	end := lastLine{r: limited}
	file, err := ics.ParseCalendar(&end)
	switch {
	case limited.N <= 0:
		return nil, fmt.Errorf("the file has more than %d MiB", MaxBytes>>20)
	case err != nil:
		return nil, fmt.Errorf("it is no iCalendar file: %w", err)
	case len(file.Components) == 0 && len(file.CalendarProperties) == 0:
		return nil, errors.New("it is no iCalendar file: it does not begin with BEGIN:VCALENDAR")
	case !strings.EqualFold(end.text(), "END:VCALENDAR"):
		return nil, errors.New("it is no whole iCalendar file: it does not end with END:VCALENDAR")
	}
	d := &Dates{Location: o.Location}
	if d.Location == nil {
		if d.Location, err = zoneOfFile(file); err != nil {
			return nil, err
		}
	}
	events, err := eventsOf(file, d.Location)
	if err != nil {
		return nil, err
	}
	var all []occurrence
	for i := range events {
		e := &events[i]
		some, endless, err := e.occurrences(o.From, o.Until)
		if err != nil {
			return nil, e.wrap(err)
		}
		if len(some) > 0 {
			d.Events++
		}
		all, d.Endless = append(all, some...), d.Endless || endless
	}
	slices.SortFunc(all, func(a, b occurrence) int {
		return cmp.Or(a.from.Compare(b.from), a.until.Compare(b.until))
	})
	for _, o := range all {
		d.Dates = append(d.Dates, o.String())
	}
	d.Dates = unique(d.Dates)
	if n := len(d.Dates); n > carillon.MaxCalendarDates {
		return nil, fmt.Errorf("%d dates from %s to %s are more than the %d of a calendar; shorten the stretch", n,
			o.From.Format(time.DateOnly), o.Until.Format(time.DateOnly), carillon.MaxCalendarDates)
	}
	return d, nil
}

// unique returns the texts in their order, each once.
func unique(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	return slices.DeleteFunc(texts, func(s string) bool {
		was := seen[s]
		seen[s] = true
		return was
	})
}

// zoneOfFile is the zone that most programs write for a whole file.
func zoneOfFile(file *ics.Calendar) (*time.Location, error) {
	for _, p := range file.CalendarProperties {
		if p.IANAToken == "X-WR-TIMEZONE" {
			return location(p.Value)
		}
	}
	return time.UTC, nil
}

func location(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("time zone %.64q is no IANA name such as Europe/London", name)
	}
	return loc, nil
}

// occurrence is one time at which an event takes place.
type occurrence struct {
	from, until time.Time
	days        bool // both are midnights in UTC that stand for days
}

// String returns it as a date of a calendar.
func (o occurrence) String() string {
	if !o.days {
		return o.from.UTC().Format(time.RFC3339) + "/" + o.until.UTC().Format(time.RFC3339)
	}
	first, last := o.from.Format(time.DateOnly), o.until.AddDate(0, 0, -1).Format(time.DateOnly)
	if first == last {
		return first
	}
	return first + "/" + last
}

// lastLine reads from r, and keeps the end of what is there: a file that was cut off has no such last line.
type lastLine struct {
	r    io.Reader
	tail []byte
}

// Read implements [io.Reader].
func (l *lastLine) Read(p []byte) (int, error) {
	const kept = 256
	n, err := l.r.Read(p)
	l.tail = append(l.tail, p[:n]...)
	l.tail = append(l.tail[:0], l.tail[max(0, len(l.tail)-kept):]...)
	return n, err
}

// text returns the last line that is not empty.
func (l *lastLine) text() string {
	text := strings.TrimSpace(string(l.tail))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

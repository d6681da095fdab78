package icalendar

import (
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests need every zone, whatever the machine has

	"github.com/carillonhq/carillon/schedule"
)

// file is an iCalendar file of events, whose lines are given with a | between them.
func file(events ...string) string {
	lines := []string{"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//test//EN"}
	for _, e := range events {
		lines = append(append(append(lines, "BEGIN:VEVENT", "SUMMARY:It"), strings.Split(e, "|")...), "END:VEVENT")
	}
	return strings.Join(append(lines, "END:VCALENDAR", ""), "\r\n")
}

var (
	from  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until = time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)
)

func TestDatesOfEvents(t *testing.T) {
	for _, c := range []struct{ what, text, want string }{
		{"a day", file("DTSTART;VALUE=DATE:20261225|DTEND;VALUE=DATE:20261226"), "2026-12-25"},
		{"a day without an end", file("DTSTART;VALUE=DATE:20261225"), "2026-12-25"},
		{"a day that ends on itself", file("DTSTART;VALUE=DATE:20261225|DTEND;VALUE=DATE:20261225"), "2026-12-25"},
		{"days", file("DTSTART;VALUE=DATE:20261224|DTEND;VALUE=DATE:20270102"), "2026-12-24/2027-01-01"},
		{"days by a duration", file("DTSTART;VALUE=DATE:20261224|DURATION:P1W"), "2026-12-24/2026-12-30"},
		{"in UTC", file("DTSTART:20260701T100000Z|DTEND:20260701T113000Z"),
			"2026-07-01T10:00:00Z/2026-07-01T11:30:00Z"},
		{"in a zone", file("DTSTART;TZID=Europe/Paris:20260701T100000|DURATION:PT1H30M"),
			"2026-07-01T08:00:00Z/2026-07-01T09:30:00Z"},
		{"without a zone", file("DTSTART:20260701T100000|DURATION:P1DT1H"),
			"2026-07-01T17:00:00Z/2026-07-02T18:00:00Z"},
		{"over a change of the clocks, a day is a day", file("DTSTART;TZID=Europe/Paris:20260328T120000|DURATION:P1D"),
			"2026-03-28T11:00:00Z/2026-03-29T10:00:00Z"},
		{"before and after", file("DTSTART;VALUE=DATE:20251231", "DTSTART;VALUE=DATE:20290101", "DTSTART;VALUE=DATE:20281231"),
			"2028-12-31"},
		{"cancelled", file("DTSTART;VALUE=DATE:20261225|STATUS:CANCELLED", "DTSTART;VALUE=DATE:20261226|STATUS:CONFIRMED"), "2026-12-26"},
		{"the same twice", file("DTSTART;VALUE=DATE:20261226", "DTSTART;VALUE=DATE:20261226"), "2026-12-26"},

		{"each year", file("DTSTART;VALUE=DATE:20001225|RRULE:FREQ=YEARLY"), "2026-12-25 2027-12-25 2028-12-25"},
		{"each year but one", file("DTSTART;VALUE=DATE:20001225|RRULE:FREQ=YEARLY|EXDATE;VALUE=DATE:20271225"), "2026-12-25 2028-12-25"},
		{"each other year", file("DTSTART;VALUE=DATE:20001225|RRULE:FREQ=YEARLY;INTERVAL=2"), "2026-12-25 2028-12-25"},
		{"last Monday in May", file("DTSTART;VALUE=DATE:20200525|RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO"),
			"2026-05-25 2027-05-31 2028-05-29"},
		{"first of the month, three times", file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=MONTHLY;COUNT=3"),
			"2026-01-01 2026-02-01 2026-03-01"},
		{"weekends", file("DTSTART;VALUE=DATE:20260103|RRULE:FREQ=WEEKLY;BYDAY=SA,SU;UNTIL=20260111"),
			"2026-01-03 2026-01-04 2026-01-10 2026-01-11"},
		{"daily, until a time", file("DTSTART;TZID=Europe/London:20260327T100000|DURATION:PT1H|RRULE:FREQ=DAILY;UNTIL=20260330T090000Z"),
			"2026-03-27T10:00:00Z/2026-03-27T11:00:00Z 2026-03-28T10:00:00Z/2026-03-28T11:00:00Z " +
				"2026-03-29T09:00:00Z/2026-03-29T10:00:00Z 2026-03-30T09:00:00Z/2026-03-30T10:00:00Z"},
		{"daily, until the end of a day", file("DTSTART:20260701T100000Z|DURATION:PT1H|RRULE:FREQ=DAILY;UNTIL=20260702"),
			"2026-07-01T10:00:00Z/2026-07-01T11:00:00Z 2026-07-02T10:00:00Z/2026-07-02T11:00:00Z"},
		{"more dates", file("DTSTART;VALUE=DATE:20260101|RDATE;VALUE=DATE:20260203,20260304"), "2026-01-01 2026-02-03 2026-03-04"},
		{"times without those of a day", file("DTSTART:20260701T100000Z|DURATION:PT1H|RRULE:FREQ=DAILY;COUNT=2|EXDATE;VALUE=DATE:20260701"),
			"2026-07-02T10:00:00Z/2026-07-02T11:00:00Z"},
		{"one moved", file("UID:a|DTSTART;VALUE=DATE:20260101|RRULE:FREQ=YEARLY;COUNT=2",
			"UID:a|RECURRENCE-ID;VALUE=DATE:20270101|DTSTART;VALUE=DATE:20270104"), "2026-01-01 2027-01-04"},
		{"one cancelled", file("UID:a|DTSTART;VALUE=DATE:20260101|RRULE:FREQ=YEARLY;COUNT=2",
			"UID:a|RECURRENCE-ID;VALUE=DATE:20270101|DTSTART;VALUE=DATE:20270101|STATUS:CANCELLED"), "2026-01-01"},
		{"nothing", file(), ""},
		{"folded lines", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=\r\n DATE:2026\r\n 1225\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
			"2026-12-25"},
		{"a zone's definition, an alarm, a task", strings.Replace(file("DTSTART;VALUE=DATE:20261225|BEGIN:VALARM|TRIGGER:-PT15M|END:VALARM"),
			"BEGIN:VEVENT", "BEGIN:VTIMEZONE\r\nTZID:Mars\r\nEND:VTIMEZONE\r\nBEGIN:VTODO\r\nDUE:20260101T000000Z\r\nEND:VTODO\r\nBEGIN:VEVENT", 1),
			"2026-12-25"},
	} {
		loc, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			t.Fatal(err)
		}
		d, err := Read(strings.NewReader(c.text), Options{Location: loc, From: from, Until: until})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if want := strings.Fields(c.want); !slices.Equal(d.Dates, want) {
			t.Errorf("%s: %q, want %q", c.what, d.Dates, want)
		}
		if _, wrong, err := schedule.ParseDates(d.Dates, d.Location); err != nil {
			t.Errorf("%s: a calendar refuses date %d: %v", c.what, wrong, err)
		}
	}
}

func TestWhatIsNotUnderstoodNamesTheEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	many := make([]string, 0, 1001)
	for i := range 1001 {
		many = append(many, "DTSTART;VALUE=DATE:"+from.AddDate(0, 0, i).Format("20060102"))
	}
	for _, c := range []struct{ text, says string }{
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=HOURLY"), `event "It" of 2026-01-01: RRULE "FREQ=HOURLY": it is to repeat within a day`},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=YEARLY;BYEASTER=0"), `RRULE "FREQ=YEARLY;BYEASTER=0": "BYEASTER" is not`},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=DAILY;BYHOUR=1"), `"BYHOUR" is not`},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=SOMETIMES"), "SOMETIMES"},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=DAILY|RRULE:FREQ=WEEKLY"), "RRULE stands there twice"},
		{file("DTSTART;VALUE=DATE:20260101|EXRULE:FREQ=DAILY"), "EXRULE is not"},
		{file("DTSTART;TZID=W. Europe Standard Time:20260101T090000|DURATION:PT1H"), `event "It": DTSTART: time zone "W. Europe Standard Time" is no IANA`},
		{file("DTSTART:20260101T090000Z"), "no length"},
		{file("DTSTART:20260101T090000Z|DTEND:20260101T080000Z"), "no length"},
		{file("DTSTART;VALUE=DATE:20260101|DTEND:20260101T080000Z"), "one is a day"},
		{file("DTSTART;VALUE=DATE:20260101|DURATION:PT1H"), "whole days"},
		{file("DTSTART:20260101T090000Z|DURATION:PT1H|DTEND:20260101T100000Z"), "both"},
		{file("DTSTART:20260101T090000Z|DURATION:soon"), "DURATION"},
		{file("DTSTART:tomorrow"), `"tomorrow" is neither a day`},
		{file("UID:x-1|DESCRIPTION:no start"), "DTSTART is missing"},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=DAILY;COUNT=-1"), `COUNT is "-1", and must be a number from 1`},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=DAILY;COUNT=0"), "COUNT is"},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:FREQ=DAILY;INTERVAL=0"), "INTERVAL is"},
		{file("DTSTART;VALUE=DATE:20260101|RRULE:"), "RRULE"},
		{strings.TrimSuffix(file("DTSTART;VALUE=DATE:20260101"), "END:VCALENDAR\r\n"), "does not end with END:VCALENDAR"},
		{file("UID:a|RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20270101|DTSTART;VALUE=DATE:20270104"), "RANGE"},
		{file("DTSTART;VALUE=DATE:20260101|RDATE;VALUE=PERIOD:20260101T090000Z/PT1H"), "RDATE"},
		{file(many...), "1001 dates from 2026-01-01 to 2029-01-01 are more than the 1000"},
		{"", "no iCalendar file"}, {"<html>", "no iCalendar file"}, {"BEGIN:VEVENT\r\nEND:VEVENT\r\n", "no iCalendar file"},
		{"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", "no iCalendar file"},
		{"BEGIN:VCALENDAR\r\nX-WR-TIMEZONE:Mars\r\nEND:VCALENDAR\r\n", `time zone "Mars"`},
		{file("DTSTART;VALUE=DATE:20260101|NOTE:" + strings.Repeat("x", MaxBytes)), "16 MiB"},
	} {
		_, err := Read(strings.NewReader(c.text), Options{From: from, Until: until})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.300q: %v, want %q", c.text, err, c.says)
		}
	}
}

func TestTheZoneOfTheFile(t *testing.T) {
	text := strings.Replace(file("DTSTART;VALUE=DATE:20261225|RRULE:FREQ=YEARLY", "DTSTART:20260701T100000|DURATION:PT1H"),
		"VERSION:2.0", "X-WR-TIMEZONE:Europe/London", 1)
	d, err := Read(strings.NewReader(text), Options{From: from, Until: until})
	if err != nil || d.Location.String() != "Europe/London" || d.Events != 2 || !d.Endless ||
		d.Dates[0] != "2026-07-01T09:00:00Z/2026-07-01T10:00:00Z" {
		t.Errorf("%+v, %v", d, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file("DTSTART;VALUE=DATE:20001225|RRULE:FREQ=YEARLY|EXDATE;VALUE=DATE:20271225"))
	f.Add(file("DTSTART;TZID=Europe/Paris:20260701T100000|DURATION:PT1H30M|RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=3"))
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Read(strings.NewReader(text), Options{From: from, Until: until})
		if err != nil {
			return
		}
		if _, wrong, err := schedule.ParseDates(d.Dates, d.Location); err != nil {
			t.Fatalf("a calendar refuses date %d of %q: %v", wrong, d.Dates, err)
		}
	})
}

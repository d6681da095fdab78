package carillon_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

func TestCalendarsThatAreWrong(t *testing.T) {
	many := slices.Repeat([]string{"12-25"}, carillon.MaxCalendarDates+1)
	for _, c := range []struct {
		field, says string
		calendar    carillon.Calendar
	}{
		{"namespace", "other than", carillon.Calendar{Namespace: "a.b", Name: "x"}},
		{"name", "missing", carillon.Calendar{}},
		{"name", "64 bytes", carillon.Calendar{Name: strings.Repeat("x", 64)}},
		{"name", "other than", carillon.Calendar{Name: "a b"}},
		{"name", "dots", carillon.Calendar{Name: ".."}},
		{"note", "UTF-8", carillon.Calendar{Name: "x", Note: "\xff"}},
		{"time_zone", "unknown", carillon.Calendar{Name: "x", TimeZone: "Mars"}},
		{"time_zone", "node to node", carillon.Calendar{Name: "x", TimeZone: "Local"}},
		{"dates", "1001 dates", carillon.Calendar{Name: "x", Dates: many}},
		{"dates[1]", "position 11", carillon.Calendar{Name: "x", Dates: []string{"12-25", "2026-01-02/2026-01-01"}}},
		{"dates[0]", "72 bytes", carillon.Calendar{Name: "x", Dates: []string{strings.Repeat("1", 72)}}},
	} {
		if err := c.calendar.Validate(); fieldOf(err) != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80v: %v, want an error about %s, saying %q", c.calendar, err, c.field, c.says)
		}
	}
	longest := "2026-12-24T12:00:00.123456789+01:00/2026-12-24T18:00:00.123456789+01:00"
	right := carillon.Calendar{Name: "Uk_holidays-1.2", TimeZone: "Europe/London",
		Dates: append(many[:carillon.MaxCalendarDates-1], longest)}
	if err := right.Validate(); err != nil {
		t.Error(err)
	}
}

func TestCalendarOverAnother(t *testing.T) {
	old := &carillon.Calendar{Name: "x", Dates: []string{"12-25"}, Generation: 3}
	for i, c := range []struct {
		put  carillon.Calendar
		old  *carillon.Calendar
		want uint64 // 0: refused
	}{
		{carillon.Calendar{}, nil, 1}, {carillon.Calendar{Generation: 1}, nil, 0},
		{carillon.Calendar{Dates: old.Dates}, old, 3}, {carillon.Calendar{Dates: old.Dates, Generation: 3}, old, 3},
		{carillon.Calendar{Dates: old.Dates, Generation: 2}, old, 0}, {carillon.Calendar{}, old, 4},
		{carillon.Calendar{Dates: old.Dates, Note: "n"}, old, 4},
		{carillon.Calendar{Dates: old.Dates, TimeZone: "UTC"}, old, 4},
	} {
		got, err := c.put.Over(c.old)
		if errors.Is(err, carillon.FailedPrecondition) != (c.want == 0) || err == nil && got.Generation != c.want {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
}

func TestPreviewWithCalendars(t *testing.T) {
	off := carillon.Calendar{Name: "off", TimeZone: "Europe/Paris", Dates: []string{"12-25/12-26"}}
	on := carillon.Calendar{Name: "on", Dates: []string{"2026-12-24T00:00:00Z/2026-12-24T12:00:00Z", "2026-12-26/2026-12-31"}}
	q := carillon.PreviewQuery{Schedule: "0 0 0,23 * * *", From: at(t, "2026-12-24T00:00:00Z"), Count: 4}
	for _, c := range []struct {
		except, only []string
		want         string
	}{
		{nil, nil, "24 23, 25 00, 25 23, 26 00"},
		{[]string{"off"}, nil, "26 23, 27 00, 27 23, 28 00"},
		{nil, []string{"on"}, "26 00, 26 23, 27 00, 27 23"},
		{[]string{"off"}, []string{"on"}, "26 23, 27 00, 27 23, 28 00"},
		{nil, []string{"off"}, "24 23, 25 00, 25 23, 26 00"},
	} {
		q.Except, q.Only = c.except, c.only
		times, err := carillon.Preview(q, now, off, on)
		var got []string
		for _, t := range times {
			got = append(got, t.Format("02 15"))
		}
		if text := strings.Join(got, ", "); err != nil || text != c.want {
			t.Errorf("except %v, only %v: %s, %v; want %s", c.except, c.only, text, err, c.want)
		}
	}
	q.Except, q.Only = []string{"off", "none"}, nil
	if _, err := carillon.Preview(q, now, off, on); !errors.Is(err, carillon.FailedPrecondition) ||
		!strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
	q.Except = slices.Collect(func(yield func(string) bool) {
		for i := range carillon.MaxCalendarsOfJob + 1 {
			yield(fmt.Sprint(i))
		}
	})
	if _, err := carillon.Preview(q, now); fieldOf(err) != "except" {
		t.Error(err)
	}
}

// TestFilterWithoutCalendarsIsNone, and a calendar that is not known does not count.
func TestFilterWithoutCalendarsIsNone(t *testing.T) {
	all, _, err := schedule.ParseDates([]string{"01-01/12-31"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) *schedule.Dates { return map[string]*schedule.Dates{"all": all}[name] }
	instant := time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		rules carillon.CalendarRules
		out   bool
	}{
		{carillon.CalendarRules{}, false}, {carillon.CalendarRules{Except: []string{"none"}}, false},
		{carillon.CalendarRules{Except: []string{"none", "all"}}, true},
		{carillon.CalendarRules{Only: []string{"none"}}, false}, {carillon.CalendarRules{Only: []string{"all", "none"}}, false},
	} {
		f := c.rules.Filter(find)
		if (f == nil) != (len(c.rules.Names()) == 0) || f.Excludes(instant) != c.out {
			t.Errorf("%+v: %v", c.rules, f)
		}
	}
}

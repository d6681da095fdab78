package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon/schedule"
)

// plainDates are dates as they are written, asked about one instant at a time.
type plainDates struct {
	texts []string
	loc   *time.Location
}

// has compares civil dates as text. The date never goes back, though clocks may.
func (p plainDates) has(t time.Time) bool {
	date := ""
	for back := range 16 {
		date = max(date, t.Add(-time.Duration(back)*15*time.Minute).In(p.loc).Format(time.DateOnly))
	}
	if date < "1970" || date >= "2200" {
		return false
	}
	for _, text := range p.texts {
		first, last, ranged := strings.Cut(text, "/")
		if !ranged {
			last = first
		}
		var in bool
		switch {
		case strings.Contains(text, "T"):
			from, _ := time.Parse(time.RFC3339Nano, first)
			until, _ := time.Parse(time.RFC3339Nano, last)
			in = !t.Before(from) && t.Before(until)
		case len(first) == 5 && last < first:
			in = date[5:] >= first || date[5:] <= last
		case len(first) == 5:
			in = first <= date[5:] && date[5:] <= last
		default:
			in = first <= date && date <= last
		}
		if in {
			return true
		}
	}
	return false
}

// drawDates draws a set near an instant.
func drawDates(t *rapid.T, near time.Time) plainDates {
	p := plainDates{loc: zones(t)}
	day := func(format string) (a, b string) {
		from := near.AddDate(0, 0, rapid.IntRange(-5, 5).Draw(t, "day"))
		to := from.AddDate(0, 0, rapid.IntRange(0, 4).Draw(t, "days"))
		return from.Format(format), to.Format(format)
	}
	for range rapid.IntRange(0, 4).Draw(t, "dates") {
		a, b := day(rapid.SampledFrom([]string{time.DateOnly, "01-02"}).Draw(t, "format"))
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			p.texts = append(p.texts, a)
		case 1:
			p.texts = append(p.texts, a+"/"+b)
		case 2:
			from := near.Add(time.Duration(rapid.IntRange(-200, 200).Draw(t, "from")) * time.Hour)
			until := from.Add(time.Duration(rapid.IntRange(1, 200*3600).Draw(t, "long")) * time.Second)
			p.texts = append(p.texts, from.Format(time.RFC3339Nano)+"/"+until.Format(time.RFC3339Nano))
		}
	}
	return p
}

func (p plainDates) parse(t *rapid.T) *schedule.Dates {
	d, wrong, err := schedule.ParseDates(p.texts, p.loc)
	if err != nil {
		t.Fatalf("%q: %d: %v", p.texts, wrong, err)
	}
	return d
}

// TestFilterIsAQuestionAboutEachTime compares a filter with asking every calendar about every time.
func TestFilterIsAQuestionAboutEachTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMoment(t)
		if y := m.when.Year(); y < 1971 || y > 2197 {
			t.Skip("dates do not go that far")
		}
		var f schedule.Filter
		var except, only []plainDates
		for range rapid.IntRange(0, 2).Draw(t, "except") {
			p := drawDates(t, m.when)
			except, f.Except = append(except, p), append(f.Except, p.parse(t))
		}
		for range rapid.IntRange(0, 2).Draw(t, "only") {
			p := drawDates(t, m.when)
			only, f.Only = append(only, p), append(f.Only, p.parse(t))
		}
		t.Logf("%s, except %v, only %v", m.s, except, only)
		left := func(at time.Time) bool {
			within := len(only) == 0
			for _, p := range only {
				within = within || p.has(at)
			}
			for _, p := range except {
				within = within && !p.has(at)
			}
			return !within
		}
		const most = 60
		at, allowed, n := m.when, []time.Time{}, 0
		for ; n < most; n++ {
			next, ok := m.next(at)
			if !ok {
				break
			}
			at = next
			if got := f.Excludes(at); got != left(at) {
				t.Fatalf("%v is left out: %v", at, got)
			}
			out, from, until := f.Around(at)
			edge := []time.Time{from, until.Add(-1), from.Add(time.Hour), until.Add(-time.Hour)}
			for _, e := range edge {
				if !e.Before(from) && e.Before(until) && !from.IsZero() && !until.IsZero() && left(e) != out {
					t.Fatalf("%v is in the stretch from %v until %v, of which left out: %v", e, from, until, out)
				}
			}
			if (!from.IsZero() && at.Before(from)) || (!until.IsZero() && !at.Before(until)) {
				t.Fatalf("%v is not from %v until %v", at, from, until)
			}
			if !left(at) {
				allowed = append(allowed, at)
			}
		}
		if got := f.Count(m.s, m.when, at, m.anchor, 1000); got != len(allowed) {
			t.Fatalf("Count says %d, not %d", got, len(allowed))
		}
		if got := f.Count(m.s, m.when, at, m.anchor, 3); got != min(3, len(allowed)) {
			t.Fatalf("Count up to 3 says %d of %d", got, len(allowed))
		}
		if len(allowed) == 0 {
			return
		}
		if first, ok := f.Next(m.s, m.when, m.anchor); !ok || first != allowed[0] {
			t.Fatalf("Next says %v, %v, not %v", first, ok, allowed[0])
		}
		if last, ok := f.Last(m.s, at, m.anchor); !ok || last != allowed[len(allowed)-1] {
			t.Fatalf("Last says %v, %v, not %v", last, ok, allowed[len(allowed)-1])
		}
	})
}

func TestDatesOfManyKinds(t *testing.T) {
	loc := zoneOf(t, "America/Sao_Paulo") // until 2019 its clocks changed at midnight
	d, _, err := schedule.ParseDates([]string{"2018-11-04", "12-24/01-01", "02-29", "2026-05-01T10:00:00+02:00/2026-05-01T12:00:00Z",
		"2026-07-01/2026-07-03", "2026-07-04"}, loc)
	if err != nil {
		t.Fatal(err)
	}
	f := schedule.Filter{Except: []*schedule.Dates{d}}
	for text, want := range map[string]bool{
		"2018-11-04T03:00:00Z": true, "2018-11-04T02:59:59Z": false, "2018-11-05T01:59:59Z": true, "2018-11-05T02:00:00Z": false,
		"2026-12-24T03:00:00Z": true, "2026-12-24T02:59:59Z": false, "2027-01-02T02:59:59Z": true, "2027-01-02T03:00:00Z": false,
		"2028-02-29T12:00:00Z": true, "2027-03-01T12:00:00Z": false,
		"2026-05-01T08:00:00Z": true, "2026-05-01T07:59:59Z": false, "2026-05-01T11:59:59Z": true, "2026-05-01T12:00:00Z": false,
		"2026-07-04T12:00:00Z": true, "2026-07-05T12:00:00Z": false,
	} {
		if got := f.Excludes(at(t, text)); got != want {
			t.Errorf("%s is in it: %v", text, got)
		}
	}
	_, from, until := f.Around(at(t, "2026-07-02T00:00:00Z"))
	if !from.Equal(at(t, "2026-07-01T03:00:00Z")) || !until.Equal(at(t, "2026-07-05T03:00:00Z")) {
		t.Errorf("days side by side are from %v until %v", from, until)
	}
}

func TestWhatIsAlwaysLeftOutHasNoNext(t *testing.T) {
	s, anchor := parsed(t, "@every 1s", schedule.Options{}), at(t, "2026-07-02T00:00:00Z")
	every, _, err := schedule.ParseDates([]string{"01-01/12-31"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	over, _, err := schedule.ParseDates([]string{"2020-01-01"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*schedule.Filter{"every day": {Except: []*schedule.Dates{every}},
		"only what is over": {Only: []*schedule.Dates{over}}} {
		if next, ok := f.Next(s, anchor, anchor); ok {
			t.Errorf("%s: %v", name, next)
		}
	}
	var none *schedule.Filter
	if next, ok := none.Next(s, anchor, anchor); !ok || !next.Equal(anchor.Add(time.Second)) || none.Excludes(anchor) {
		t.Errorf("no filter: %v", next)
	}
}

// TestDatesEndWithTheirYears: what a set has every year it has from 1970 to 2199, and asking about any other
// instant ends.
func TestDatesEndWithTheirYears(t *testing.T) {
	for _, zone := range []string{"UTC", "Pacific/Kiritimati", "America/Los_Angeles"} {
		d, _, err := schedule.ParseDates([]string{"01-01/12-31"}, zoneOf(t, zone))
		if err != nil {
			t.Fatal(err)
		}
		f := schedule.Filter{Except: []*schedule.Dates{d}}
		for text, want := range map[string]bool{"0001-01-01T00:00:00Z": false, "1677-01-01T00:00:00Z": false,
			"1969-12-30T00:00:00Z": false, "1970-01-02T00:00:00Z": true, "2199-12-30T00:00:00Z": true,
			"2200-01-02T00:00:00Z": false, "2262-04-11T23:47:16Z": false, "9999-12-31T23:59:59Z": false} {
			if got := f.Excludes(at(t, text)); got != want {
				t.Errorf("%s in %s is in it: %v", text, zone, got)
			}
		}
	}
}

func TestDatesThatAreWrong(t *testing.T) {
	for _, c := range []struct {
		text string
		pos  int
		says string
	}{
		{"", 0, "is no date"}, {"Christmas", 0, "is no date"}, {"2026-02-29", 0, "is no date"}, {"02-30", 0, "is no date"},
		{"1969-12-31", 0, "1970"}, {"2200-01-01", 0, "2199"}, {"2026-1-1", 0, "is no date"},
		{"2026-12-24/12-26", 11, "one kind"}, {"2026-12-24/2026-12-23", 11, "before it begins"},
		{"2026-12-24/", 11, "one kind"}, {"/2026-12-24", 1, "one kind"}, {"2026-12-24/2026-12-2x", 11, "is no date"},
		{"2026-12-24T00:00:00Z", 0, "no length"}, {"2026-12-24T00:00:00Z/2026-12-24T00:00:00Z", 21, "end after"},
		{"2026-12-24T00:00:00Z/2026-12-25", 21, "RFC 3339"}, {"2026-12-24T00:00:00Z/2200-01-01T00:00:00Z", 21, "2199"},
	} {
		_, wrong, err := schedule.ParseDates([]string{"2026-01-01", c.text}, nil)
		e, ok := errors.AsType[*schedule.Error](err)
		if !ok || wrong != 1 || e.Field != "date" || e.Pos != c.pos || e.Expr != c.text || !strings.Contains(e.Msg, c.says) {
			t.Errorf("%q: %d, %v; want %q at %d", c.text, wrong, err, c.says, c.pos)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	var days []string
	for year := 2020; year < 2040; year++ {
		for day := 1; day < 11; day++ {
			days = append(days, fmt.Sprintf("%d-%02d-%02d", year, day, day))
		}
	}
	d, _, err := schedule.ParseDates(append(days, "12-25/12-26"), zoneOf(b, "Europe/London"))
	if err != nil {
		b.Fatal(err)
	}
	f, t := schedule.Filter{Except: []*schedule.Dates{d}}, at(b, "2026-07-02T00:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		f.Excludes(t)
	}
}

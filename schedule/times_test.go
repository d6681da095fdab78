package schedule_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

func TestParseTime(t *testing.T) {
	ny := zoneOf(t, "America/New_York")
	now := at(t, "2026-03-07T07:30:00Z") // 02:30 in New York, the day before the gap
	for _, c := range []struct {
		text, want string
		relative   bool
	}{
		{"2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", false},
		{" 2026-01-01T00:00:00.25+01:00 ", "2025-12-31T23:00:00.25Z", false},
		{"90s", "2026-03-07T07:31:30Z", true},
		{"1h30m", "2026-03-07T09:00:00Z", true},
		{"0s", "2026-03-07T07:30:00Z", true},
		{"PT3S", "2026-03-07T07:30:03Z", true},
		{"PT0S", "2026-03-07T07:30:00Z", true},
		{"PT24H", "2026-03-08T07:30:00Z", true},
		{"P1D", "2026-03-08T07:00:00Z", true}, // the end of the gap
		{"P2D", "2026-03-09T06:30:00Z", true},
		{"P1W", "2026-03-14T06:30:00Z", true},
		{"P1M", "2026-04-07T06:30:00Z", true},
		{"P1Y2M3DT4H", "2027-05-10T10:30:00Z", true},
	} {
		got, relative, err := schedule.ParseTime(c.text, now, ny)
		if err != nil || got.Format(time.RFC3339Nano) != c.want || relative != c.relative {
			t.Errorf("%q: got %v %v %v, want %s %v", c.text, got, relative, err, c.want, c.relative)
		}
	}
}

func TestParseTimeErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		pos  int
		msg  string
	}{
		{"", 0, "empty"},
		{"soon", 0, "neither RFC 3339, such as"},
		{"-5s", 0, "negative"},
		{" -PT5S", 1, "neither RFC 3339, such as"},
		{"90", 0, "nor a duration from now such as 90s"},
		{"2026-01-01", 0, "not RFC 3339"},
		{"2026-02-30T00:00:00Z", 0, "not RFC 3339"},
		{"2026-01-01T00:00:00", 0, "not RFC 3339"},
		{"0000-01-01T00:00:00Z", 0, "years 1-9999"},
		{"P8000Y", 0, "outside the years 1-9999"},
		{"P1Y1Y", 4, "cannot stand here"},
		{"R/PT1H", 0, "neither RFC 3339, such as"},
	} {
		_, _, err := schedule.ParseTime(c.text, at(t, "2026-03-07T07:30:00Z"), nil)
		checkError(t, c.text, err, "time", c.pos, c.msg)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "0": 0, "1.5ms": 1500 * time.Microsecond,
		"PT90S": 90 * time.Second, "P1D": 24 * time.Hour, "P1W": 168 * time.Hour,
		"P1W1DT1H1M1.000000001S": 193*time.Hour + time.Minute + time.Second + 1, "PT0,25M": 15 * time.Second,
		"PT9223372036.854775807S": 1<<63 - 1, " 1s ": time.Second,
	} {
		if got, err := schedule.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v %v, want %v", text, got, err, want)
		}
	}
	for _, c := range []struct {
		text string
		pos  int
		msg  string
	}{
		{"", 0, "missing"}, {"x", 0, "not a duration"}, {"-1s", 0, "negative"}, {"P1M", 0,
			"length varies"}, {"P1Y", 0, "length varies"},
		{"PT9223372036.854775808S", 2, "292 years"}, {"P106752D", 0, "292 years"}, {"P106751DT24H", 0,
			"292 years"}, {"PT2562048H", 2, "292 years"},
		{"9999999999h", 0, "longer than the longest duration"}, {"P", 0, "nothing follows"},
		{"pt1s", 0, "not a duration"},
	} {
		_, err := schedule.ParseDuration(c.text)
		checkError(t, c.text, err, "duration", c.pos, c.msg)
	}
}

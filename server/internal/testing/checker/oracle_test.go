package checker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	product "github.com/carillonhq/carillon/schedule"
)

// TestInstants holds the oracle against times worked out by hand, from the first moment on.
func TestInstants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schedule, zone, anchor, from, want string }{
		{"30 2 * * *", "", "", "2026-01-01T00:00:00Z", "2026-01-01T02:30:00Z 2026-01-02T02:30:00Z"},
		{"*/15 9-10 * * *", "", "", "2026-01-01T09:20:00Z",
			"2026-01-01T09:30:00Z 2026-01-01T09:45:00Z 2026-01-01T10:00:00Z"},
		{"10,50 30 4 * * *", "", "", "2026-01-01T00:00:00Z",
			"2026-01-01T04:30:10Z 2026-01-01T04:30:50Z 2026-01-02T04:30:10Z"},
		{"5/20 * * * * *", "", "", "2026-01-01T00:00:00Z",
			"2026-01-01T00:00:05Z 2026-01-01T00:00:25Z 2026-01-01T00:00:45Z 2026-01-01T00:01:05Z"},
		{"0 0 * * FRI-MON", "", "", "2026-01-01T00:00:00Z",
			"2026-01-02T00:00:00Z 2026-01-03T00:00:00Z 2026-01-04T00:00:00Z 2026-01-05T00:00:00Z 2026-01-09T00:00:00Z"},
		{"0 22-1 * * *", "", "", "2026-01-01T22:30:00Z",
			"2026-01-01T23:00:00Z 2026-01-02T00:00:00Z 2026-01-02T01:00:00Z 2026-01-02T22:00:00Z"},
		{"0 0 13 * FRI", "", "", "2026-02-01T00:00:00Z",
			"2026-02-06T00:00:00Z 2026-02-13T00:00:00Z 2026-02-20T00:00:00Z"},
		{"0 0 13 * +FRI", "", "", "2026-02-01T00:00:00Z", "2026-02-13T00:00:00Z"},
		{"0 0 * * 7", "", "", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z"},
		{"0 0 29 feb ?", "", "", "2028-02-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 0 1 1 ? 2027", "", "", "2026-12-20T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@hourly", "", "", "2026-01-01T00:00:01Z", "2026-01-01T01:00:00Z 2026-01-01T02:00:00Z"},
		{"@weekly", "", "", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"TZ=Asia/Kathmandu 0 9 * * *", "", "", "2026-01-01T00:00:00Z", "2026-01-01T03:15:00Z"},
		// The clocks of New York go from 02:00 to 03:00 on 8 March 2026 and from 02:00 to 01:00 on 1
		// November.
		{"30 2 * * *", "America/New_York", "", "2026-03-07T12:00:00Z",
			"2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{"0,15,30 2 * * *", "America/New_York", "", "2026-03-08T06:00:00Z",
			"2026-03-08T03:00:00-04:00 2026-03-09T02:00:00-04:00"},
		{"30 2,3 * * *", "America/New_York", "", "2026-03-08T06:00:00Z",
			"2026-03-08T03:00:00-04:00 2026-03-08T03:30:00-04:00"},
		{"* 2 * * *", "America/New_York", "", "2026-03-08T06:00:00Z",
			"2026-03-09T02:00:00-04:00 2026-03-09T02:01:00-04:00"},
		{"*/30 * * * *", "America/New_York", "", "2026-03-08T06:30:00Z",
			"2026-03-08T01:30:00-05:00 2026-03-08T03:00:00-04:00"},
		{"30 1 * * *", "America/New_York", "", "2026-10-31T12:00:00Z",
			"2026-11-01T01:30:00-04:00 2026-11-02T01:30:00-05:00"},
		{"30 1 * * *", "America/New_York", "", "2026-11-01T05:45:00Z", "2026-11-02T01:30:00-05:00"},
		{"*/30 1 * * *", "America/New_York", "", "2026-11-01T04:59:00Z",
			"2026-11-01T01:00:00-04:00 2026-11-01T01:30:00-04:00 2026-11-01T01:00:00-05:00 2026-11-01T01:30:00-05:00"},
		{"0,30 1,2 * * *", "America/New_York", "", "2026-11-01T05:00:00Z",
			"2026-11-01T01:00:00-04:00 2026-11-01T01:30:00-04:00 2026-11-01T02:00:00-05:00 2026-11-01T02:30:00-05:00"},
		{"30 1 * * *", "Europe/London", "", "2026-03-28T12:00:00Z",
			"2026-03-29T02:00:00+01:00 2026-03-30T01:30:00+01:00"},
		{"30 1 * * *", "Europe/London", "", "2026-10-25T00:00:00Z",
			"2026-10-25T01:30:00+01:00 2026-10-26T01:30:00Z"},
		{"0 1-3 * * *", "Europe/London", "", "2026-03-29T00:00:00Z",
			"2026-03-29T02:00:00+01:00 2026-03-29T03:00:00+01:00 2026-03-30T01:00:00+01:00"},
		// Lord Howe changes by half an hour, at 02:00.
		{"15 2 * * *", "Australia/Lord_Howe", "", "2026-10-03T10:00:00Z",
			"2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00"},
		{"45 1 * * *", "Australia/Lord_Howe", "", "2026-04-04T10:00:00Z",
			"2026-04-05T01:45:00+11:00 2026-04-06T01:45:00+10:30"},
		// A day that Samoa left out is not made up for.
		{"0 12 30 12 *", "Pacific/Apia", "", "2011-12-28T00:00:00Z", ""},
		{"@every 90s", "", "2026-01-01T00:00:07Z", "2026-01-01T00:01:00Z",
			"2026-01-01T00:01:37Z 2026-01-01T00:03:07Z"},
		{"@every 1h/19m", "", "", "2026-01-01T00:00:00Z", "2026-01-01T00:19:00Z 2026-01-01T01:19:00Z"},
		{"@every PT1M", "", "2026-01-01T00:00:00Z", "2025-12-01T00:00:00Z",
			"2026-01-01T00:00:00Z 2026-01-01T00:01:00Z"},
		{"R/PT3S", "", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:03Z 2026-01-01T00:00:06Z"},
		{"R3/2026-01-01T00:00:00Z/PT15M", "", "", "2026-01-01T00:10:00Z",
			"2026-01-01T00:15:00Z 2026-01-01T00:30:00Z"},
		{"R/2026-01-31T09:00:00Z/P1M", "", "", "2026-01-01T00:00:00Z",
			"2026-01-31T09:00:00Z 2026-02-28T09:00:00Z 2026-03-31T09:00:00Z 2026-04-30T09:00:00Z"},
		{"R/2028-01-31T09:00:00Z/P1M", "", "", "2028-02-01T00:00:00Z", "2028-02-29T09:00:00Z 2028-03-31T09:00:00Z"},
		{"R/2024-02-29T09:00:00Z/P1Y", "", "", "2024-03-01T00:00:00Z",
			"2025-02-28T09:00:00Z 2026-02-28T09:00:00Z 2027-02-28T09:00:00Z 2028-02-29T09:00:00Z"},
		{"R/2026-01-01T09:00:00Z/P1W", "", "", "2026-01-02T00:00:00Z", "2026-01-08T09:00:00Z 2026-01-15T09:00:00Z"},
		{"R/2026-03-07T07:30:00Z/P1D", "America/New_York", "", "2026-03-07T07:30:00Z",
			"2026-03-07T02:30:00-05:00 2026-03-08T03:00:00-04:00 2026-03-09T02:30:00-04:00"},
		{"R/2026-10-31T05:30:00Z/P1D", "America/New_York", "", "2026-10-31T06:00:00Z",
			"2026-11-01T01:30:00-04:00 2026-11-02T01:30:00-05:00"},
		{"R/2026-03-07T14:00:00Z/P1DT1H", "America/New_York", "", "2026-03-07T14:00:01Z",
			"2026-03-08T10:00:00-04:00 2026-03-09T11:00:00-04:00"},
		{"R/2026-03-07T14:00:00Z/PT24H", "America/New_York", "", "2026-03-07T14:00:01Z",
			"2026-03-08T10:00:00-04:00"},
	} {
		s, err := parse(c.schedule, c.zone, false)
		if err != nil {
			t.Errorf("%s: %v", c.schedule, err)
			continue
		}
		var want []time.Time
		for text := range strings.FieldsSeq(c.want) {
			want = append(want, moment(t, text))
		}
		to := moment(t, c.from).AddDate(0, 0, 5)
		if len(want) > 0 {
			to = want[len(want)-1]
		}
		var anchor time.Time
		if c.anchor != "" {
			anchor = moment(t, c.anchor)
		}
		got := s.instants(anchor, moment(t, c.from), to)
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("%s %s from %s:\n got %v\nwant %v", c.schedule, c.zone, c.from, got, want)
		}
	}
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	s, err := parse("30 1,2 * * *", "America/New_York", true)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.instants(time.Time{}, moment(t, "2026-03-08T06:00:00Z"),
		moment(t, "2026-03-08T12:00:00Z")); len(got) != 1 {
		t.Errorf("in spring: %v, want one: 02:30 does not exist", got)
	}
	if got := s.instants(time.Time{}, moment(t, "2026-11-01T04:00:00Z"),
		moment(t, "2026-11-01T12:00:00Z")); len(got) != 3 {
		t.Errorf("in autumn: %v, want three: 01:30 exists twice", got)
	}
}

func TestWhatTheOracleDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0 0 L * *", "0 0 15W * *", "0 0 * * FRI#2", "* * * *", "61 * * * *",
		"*/0 * * * *", "@every", "@every -1s", "R4", "R/P",
		"Rx/PT1S", "@reboot", "TZ=Nowhere/Land * * * * *"} {
		if _, err := parse(text, "", false); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if _, err := parse("@daily", "Nowhere/Land", false); err == nil {
		t.Error("an unknown zone was taken")
	}
}

// TestOracleAgainstSchedule: two readings of the same page, made apart, agree.
func TestOracleAgainstSchedule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, zone := drawSchedule(t), rapid.SampledFrom([]string{"", "Europe/London", "America/New_York",
			"Australia/Lord_Howe", "America/Havana"}).Draw(t, "zone")
		literal := rapid.Bool().Draw(t, "literal")
		day := rapid.SampledFrom([]string{"2026-03-08", "2026-11-01", "2026-03-29", "2026-10-25",
			"2026-04-05", "2026-10-04", "2026-02-27"}).Draw(t, "day")
		from, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		from = from.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "hours")) * time.Hour)
		anchor := from.Add(time.Duration(rapid.IntRange(-200_000, 3600).Draw(t, "anchor")) * time.Second)
		to := from.Add(30 * time.Hour)
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := product.Parse(text, product.Options{Location: loc, Literal: literal})
		if err != nil {
			t.Skip() // it never fires
		}
		ours, err := parse(text, zone, literal)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got := ours.instants(anchor, from, to)
		at := from.Add(-1)
		for i := 0; ; i++ {
			next, ok := theirs.Next(at, anchor)
			if !ok || next.After(to) {
				if i < len(got) {
					t.Fatalf("%q %s: after %v the schedule has nothing, the oracle %v", text, zone, at, got[i])
				}
				return
			}
			if i >= len(got) || !got[i].Equal(next) {
				t.Fatalf("%q %s from %v: the %dth is %v, the oracle has %v", text, zone, from, i, next, got)
			}
			at = next
		}
	})
}

func drawSchedule(t *rapid.T) string {
	field := func(name string, items ...string) string { return rapid.SampledFrom(items).Draw(t, name) }
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		return field("every", "@every 90s", "@every 7h", "@every 1h/19m", "@every 26h")
	case 1:
		return field("repeat", "R/PT50M", "R/P1D", "R/P1M", "R5/2026-03-06T07:30:00Z/P1D",
			"R/2026-01-31T02:30:00Z/P1M", "R/P1DT1H", "R/P1W")
	}
	return strings.Join([]string{
		field("second", "0", "30", "0,20", "5/25"),
		field("minute", "0", "30", "15,45", "*/20", "10-12", "50-5", "*"),
		field("hour", "1", "2", "1,2", "0-3", "23-2", "*", "*/2", "3", "0"),
		field("dom", "*", "?", "1-31", "8", "*/2", "25,29"),
		field("month", "*", "MAR-NOV", "3,10"),
		field("dow", "*", "SUN", "SAT-MON", "0", "7", "1-5", "+SUN"),
	}, " ")
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	at := moment(t, "2026-01-01T00:00:01Z")
	for _, c := range []struct {
		policy    Policy
		recurring bool
		attempts  int
		delays    []time.Duration // after attempts 1, 2, …
	}{
		{Policy{}, false, 5, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{Policy{}, true, 4, []time.Duration{time.Second, time.Second}},
		{Policy{Kind: "drop"}, true, 1, nil},
		{Policy{Kind: "constant", Interval: time.Minute}, true, 0, []time.Duration{time.Minute, time.Minute}},
		{Policy{Kind: "exponential", Initial: time.Second, Factor: 10, Max: time.Minute}, false, 5,
			[]time.Duration{time.Second, 10 * time.Second, time.Minute}},
		{Policy{Kind: "schedule", Cron: "*/2 * * * * *"}, false, 0, []time.Duration{time.Second, time.Second}},
	} {
		p := c.policy.resolved(c.recurring)
		if p.attempts() != c.attempts {
			t.Errorf("%+v: %d attempts, want %d", c.policy, p.attempts(), c.attempts)
		}
		for i, d := range c.delays {
			if got := p.notBefore(at, i+1, "").Sub(at); got != d {
				t.Errorf("%+v: %v after attempt %d, want %v", c.policy, got, i+1, d)
			}
		}
	}
}

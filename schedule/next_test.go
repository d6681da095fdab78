package schedule_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

// chain is an expression, an instant and the fire times that follow, all in a zone; "-" means none.
type chain struct {
	expr, zone, after string
	want              []string
}

func (c chain) check(t *testing.T, literal bool) {
	t.Helper()
	opt := schedule.Options{Location: zoneOf(t, c.zone), Literal: literal}
	s := parsed(t, c.expr, opt)
	after := at(t, c.after)
	anchor := after
	for _, want := range c.want {
		next, ok := s.Next(after, anchor)
		got := "-"
		if ok {
			got = next.In(opt.Location).Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%s in %s after %s: got %s, want %s", c.expr, c.zone,
				after.In(opt.Location).Format(time.RFC3339), got, want)
			return
		}
		if next.Location() != time.UTC {
			t.Errorf("%s: result in %v", c.expr, next.Location())
		}
		after = next
	}
}

func TestNextDates(t *testing.T) {
	for _, c := range []chain{
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"}},
		{"0 0 29 2 +MON", "UTC", "2026-01-01T00:00:00Z", []string{"2044-02-29T00:00:00Z", "2072-02-29T00:00:00Z"}},
		{"0 0 13 * FRI", "UTC", "2026-02-06T00:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}},
		{"0 0 13 * +FRI", "UTC", "2026-02-01T00:00:00Z",
			[]string{"2026-02-13T00:00:00Z", "2026-03-13T00:00:00Z", "2026-11-13T00:00:00Z"}},
		{"0 0 */10 * WED", "UTC", "2026-02-11T00:00:00Z",
			[]string{"2026-02-18T00:00:00Z", "2026-02-21T00:00:00Z", "2026-02-25T00:00:00Z", "2026-03-01T00:00:00Z"}},
		{"0 0 L * *", "UTC", "2028-01-31T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"}},
		{"0 0 L-30 * *", "UTC", "2026-01-02T00:00:00Z", []string{"2026-03-01T00:00:00Z", "2026-05-01T00:00:00Z"}},
		{"0 0 LW * *", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-31T00:00:00Z"}},
		// a Saturday moves on, not back
		{"0 0 1W 8 *", "UTC", "2026-01-01T00:00:00Z", []string{"2026-08-03T00:00:00Z"}},
		{"0 0 31W 5 *", "UTC", "2026-01-01T00:00:00Z", []string{"2026-05-29T00:00:00Z"}},
		{"0 0 31W * *", "UTC", "2026-05-30T00:00:00Z", []string{"2026-07-31T00:00:00Z"}}, // June has no 31st
		// though November 31st would be a Saturday
		{"0 0 31W * *", "UTC", "2029-11-01T00:00:00Z", []string{"2029-12-31T00:00:00Z"}},
		{"0 0 15W,L * *", "UTC", "2026-02-01T00:00:00Z",
			[]string{"2026-02-16T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-16T00:00:00Z"}},
		{"0 0 * * FRIL", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z"}},
		{"0 0 * * FRI#5", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-30T00:00:00Z", "2026-05-29T00:00:00Z"}},
		{"0 0 * * MON#1,WED", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2026-01-05T00:00:00Z", "2026-01-07T00:00:00Z", "2026-01-14T00:00:00Z"}},
		{"0 0 0 1 1 ? 2027,2031-2033/2", "UTC", "2026-01-01T00:00:00Z",
			[]string{"2027-01-01T00:00:00Z", "2031-01-01T00:00:00Z", "2033-01-01T00:00:00Z", "-"}},
		{"0 0 0 1 1 ? 2020", "UTC", "2026-01-01T00:00:00Z", []string{"-"}}, // all in the past is no error
		{"59 59 23 31 12 ? 2199", "UTC", "2026-01-01T00:00:00Z", []string{"2199-12-31T23:59:59Z", "-"}},
		{"59 59 23 31 12 ?", "UTC", "9998-12-31T23:59:59Z", []string{"9999-12-31T23:59:59Z", "-"}},
		{"* * * * * *", "UTC", "1969-12-31T23:59:58Z",
			[]string{"1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"}},
		{"0 9 * * *", "Europe/Berlin", "2040-12-30T12:00:00Z",
			[]string{"2040-12-31T09:00:00+01:00", "2041-01-01T09:00:00+01:00"}},
	} {
		c.check(t, false)
	}
}

// TestNextGaps is the rule for fixed times in a gap.
func TestNextGaps(t *testing.T) {
	for _, c := range []chain{
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"0,15,30 2 * * *", "America/New_York", "2026-03-08T06:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"30 2,3 * * *", "America/New_York", "2026-03-08T06:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"}},
		{"0 2,3 * * *", "America/New_York", "2026-03-08T06:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"0 0 * * *", "America/Havana", "2026-03-07T12:00:00Z",
			[]string{"2026-03-08T01:00:00-04:00", "2026-03-09T00:00:00-04:00"}},
		{"30 0 4 11 ?", "America/Sao_Paulo", "2018-11-01T12:00:00Z",
			[]string{"2018-11-04T01:00:00-02:00", "2019-11-04T00:30:00-03:00"}},
		{"0 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"}},
		{"30 23 * * *", "America/Nuuk", "2024-03-30T12:00:00Z",
			[]string{"2024-03-31T00:00:00-01:00", "2024-03-31T23:30:00-01:00"}},
		{"30 23 30 3 ?", "America/Nuuk", "2024-03-30T12:00:00Z",
			[]string{"2024-03-31T00:00:00-01:00", "2025-03-30T23:30:00-01:00"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T10:00:00Z",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"30 1 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T01:30:00+02:00"}},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T10:00:00Z",
			[]string{"2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"}},
		{"0 0 30 12 ?", "Pacific/Apia", "2011-01-01T10:00:00Z", []string{"2012-12-30T00:00:00+14:00"}},
		{"5 0 * * *", "Asia/Kathmandu", "1985-12-31T12:00:00Z",
			[]string{"1986-01-01T00:15:00+05:45", "1986-01-02T00:05:00+05:45"}},
		// 0-59 is a list like any other; a * is not: it follows elapsed time.
		{"0-59 2 * * *", "America/New_York", "2026-03-08T06:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"* 2 * * *", "America/New_York", "2026-03-08T06:00:00Z", []string{"2026-03-09T02:00:00-04:00"}},
		{"*/30 * * * *", "America/New_York", "2026-03-08T06:30:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"}},
		// Year and day are those of the time in the gap.
		{"0 30 2 8 3 ? 2026", "America/New_York", "2026-01-01T00:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "-"}},
		{"30 2 8-14 3 +SUN", "America/New_York", "2045-01-01T00:00:00Z",
			[]string{"2045-03-12T03:00:00-04:00", "2046-03-11T03:00:00-04:00"}},
		{"0/30 30 2 8-14 3 +SUN", "America/New_York", "2045-01-01T00:00:00Z", []string{"-"}}, // always skipped
	} {
		c.check(t, false)
	}
}

// TestNextOverlaps is the rule for times that occur twice.
func TestNextOverlaps(t *testing.T) {
	for _, c := range []chain{
		{"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"0,30 1,2 * * *", "America/New_York", "2026-11-01T05:00:00Z",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-01T02:00:00-05:00"}},
		{"*/30 1 * * *", "America/New_York", "2026-11-01T04:59:00Z",
			[]string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00",
				"2026-11-01T01:00:00-05:00", "2026-11-01T01:30:00-05:00", "2026-11-02T01:00:00-05:00"}},
		// between the two
		{"30 1 * * *", "America/New_York", "2026-11-01T05:45:00Z", []string{"2026-11-02T01:30:00-05:00"}},
		{"0 0 * * *", "America/Havana", "2026-10-31T12:00:00Z",
			[]string{"2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"}},
		{"45 23 * * *", "America/Sao_Paulo", "2018-02-17T12:00:00Z",
			[]string{"2018-02-17T23:45:00-02:00", "2018-02-18T23:45:00-03:00"}},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T10:00:00Z",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
		{"30 2 * * *", "Antarctica/Troll", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00Z"}},
		{"30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00:00Z",
			[]string{"2026-02-15T02:30:00+01:00", "2026-02-16T02:30:00Z"}},
		// The start of this change is misreported by ZoneBounds with the embedded data.
		{"30 23 * * *", "America/Ciudad_Juarez", "2022-11-29T12:00:00Z",
			[]string{"2022-11-29T23:30:00-06:00", "2022-11-30T23:30:00-07:00"}},
		// A repeated day is a change of the calendar: each of the two counts.
		{"0 12 * * *", "Pacific/Kwajalein", "1969-09-29T00:00:00Z",
			[]string{"1969-09-29T12:00:00+11:00", "1969-09-30T12:00:00+11:00",
				"1969-09-30T12:00:00-12:00", "1969-10-01T12:00:00-12:00"}},
	} {
		c.check(t, false)
	}
}

func TestNextLiteral(t *testing.T) {
	for _, c := range []chain{
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", []string{"2026-03-09T02:30:00-04:00"}},
		{"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-02T01:30:00-05:00"}},
		{"0 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", []string{"2026-03-09T00:00:00-04:00"}},
	} {
		c.check(t, true)
	}
}

func TestNextIntervals(t *testing.T) {
	for _, c := range []chain{ // the anchor is the instant to start after
		{"@every 90m", "UTC", "2026-01-01T00:10:00Z", []string{"2026-01-01T01:40:00Z", "2026-01-01T03:10:00Z"}},
		{"@every 1h/19m", "UTC", "2026-01-01T00:19:00Z", []string{"2026-01-01T01:19:00Z", "2026-01-01T02:19:00Z"}},
		{"@every 1h/19m", "UTC", "1969-12-31T22:19:01Z", []string{"1969-12-31T23:19:00Z", "1970-01-01T00:19:00Z"}},
		{"@every 7m/0s", "UTC", "1970-01-01T00:00:00Z", []string{"1970-01-01T00:07:00Z"}},
		{"R4/2026-01-01T00:00:00Z/PT15M", "UTC",
			"2025-06-01T00:00:00Z", []string{"2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z",
				"2026-01-01T00:30:00Z", "2026-01-01T00:45:00Z", "-"}},
		// the caller counts
		{"R2/PT15M", "UTC", "2026-01-01T00:00:00Z", []string{"2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"}},
		{"R/2026-01-31T09:00:00Z/P1M", "UTC",
			"2026-01-01T00:00:00Z", []string{"2026-01-31T09:00:00Z", "2026-02-28T09:00:00Z",
				"2026-03-31T09:00:00Z", "2026-04-30T09:00:00Z"}},
		{"R/2024-02-29T09:00:00Z/P1Y", "UTC", "2026-03-01T00:00:00Z",
			[]string{"2027-02-28T09:00:00Z", "2028-02-29T09:00:00Z"}},
		{"R3/2026-01-31T09:00:00Z/P1M", "UTC", "2026-02-28T09:00:00Z", []string{"2026-03-31T09:00:00Z", "-"}},
		// The wall clock stays; in a gap: its end; twice: the first. Elapsed time comes on top.
		{"R/2026-03-07T07:30:00Z/P1D", "America/New_York", "2026-03-07T07:30:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"R/2026-10-31T05:30:00Z/P1D", "America/New_York", "2026-10-31T05:30:00Z",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"R/2026-03-28T01:30:00Z/P1D", "Europe/Berlin", "2026-03-28T01:30:00Z",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"R/2026-10-24T00:30:00Z/P1D", "Europe/Berlin", "2026-10-24T00:30:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		// not shown twice
		{"R/2026-10-31T06:00:00Z/P1D", "America/New_York", "2026-10-31T06:00:00Z",
			[]string{"2026-11-01T02:00:00-05:00"}},
		{"R/2026-03-07T14:00:00Z/P1DT1H", "America/New_York", "2026-03-07T14:00:00Z",
			[]string{"2026-03-08T10:00:00-04:00", "2026-03-09T11:00:00-04:00"}},
		{"R/2026-03-07T14:00:00Z/PT24H", "America/New_York", "2026-03-07T14:00:00Z",
			[]string{"2026-03-08T10:00:00-04:00"}},
		{"R/2011-12-28T19:00:00Z/P1D", "Pacific/Apia", "2011-12-29T19:00:00Z",
			[]string{"2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"}},
		{"R/P1M", "UTC", "9999-11-30T00:00:00Z", []string{"9999-12-30T00:00:00Z", "-"}},
		{"@every 2562047h", "UTC", "9900-01-01T00:00:00Z", []string{"-"}},
	} {
		c.check(t, false)
	}
}

// TestAnchor: an anchored schedule fires at its anchor itself; a cron ignores it.
func TestAnchor(t *testing.T) {
	anchor := at(t, "2026-01-01T00:00:30.5Z")
	for expr, want := range map[string]time.Time{
		"@every 1m":     anchor,
		"R3/PT1M":       anchor,
		"R/P1D":         anchor,
		"@every 1m/30s": at(t, "2020-01-01T00:00:30Z"),
		"* * * * *":     at(t, "2020-01-01T00:01:00Z"),
	} {
		s := parsed(t, expr, schedule.Options{})
		if got, ok := s.Next(at(t, "2020-01-01T00:00:00Z"), anchor); !ok || got != want {
			t.Errorf("%s: got %v %v, want %v", expr, got, ok, want)
		}
		last, ok := s.Last(anchor.Add(-time.Nanosecond), anchor)
		if ok == s.Anchored() {
			t.Errorf("%s: last before the anchor: %v %v", expr, last, ok)
		}
	}
}

func TestLastAndCount(t *testing.T) {
	anchor := at(t, "2020-01-01T00:00:00Z")
	for _, c := range []struct {
		expr, until, last string
		count             int // since the anchor
	}{
		{"* * * * * *", "2026-01-01T00:00:00.9Z", "2026-01-01T00:00:00Z", 1000},
		{"0 0 1 1 *", "2026-06-01T00:00:00Z", "2026-01-01T00:00:00Z", 6},
		{"0 0 29 2 *", "2026-06-01T00:00:00Z", "2024-02-29T00:00:00Z", 2},
		{"* * * * * * 1970", "2026-06-01T00:00:00Z", "1970-12-31T23:59:59Z", 0},
		{"0 0 0 1 1 ? 2030", "2026-06-01T00:00:00Z", "-", 0},
		{"@every 1ms", "2026-01-01T00:00:00.0015Z", "2026-01-01T00:00:00.001Z", 1000},
		{"@every 1000h", "2020-03-01T00:00:00Z", "2020-02-11T16:00:00Z", 1},
		{"@every 1000h", "2019-03-01T00:00:00Z", "-", 0},
		{"R4/2020-01-01T00:00:00Z/PT15M", "2026-01-01T00:00:00Z", "2020-01-01T00:45:00Z", 3},
		{"R/2020-01-31T00:00:00Z/P1M", "2026-03-15T00:00:00Z", "2026-02-28T00:00:00Z", 74},
		{"R3/2020-01-31T00:00:00Z/P1M", "2026-03-15T00:00:00Z", "2020-03-31T00:00:00Z", 3},
		{"R/P1M", "2019-03-15T00:00:00Z", "-", 0},
	} {
		s := parsed(t, c.expr, schedule.Options{})
		until, _ := time.Parse(time.RFC3339Nano, c.until)
		got := "-"
		if last, ok := s.Last(until, anchor); ok {
			got = last.Format(time.RFC3339Nano)
		}
		if got != c.last {
			t.Errorf("%s: last %s, want %s", c.expr, got, c.last)
		}
		if n := s.Count(anchor, until, anchor, 1000); n != c.count {
			t.Errorf("%s: count %d, want %d", c.expr, n, c.count)
		}
		if n := s.Count(anchor, until, anchor, -1); n != 0 {
			t.Errorf("%s: count %d with a negative limit", c.expr, n)
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	ny := zoneOf(t, "America/New_York")
	after := at(t, "2026-03-08T06:00:00Z")
	exprs := []string{"30 2 * * *", "*/5 * * * *", "0 0 LW * +FRI", "@every 5s", "@every 1h/19m", "R/P1M",
		"R4/2026-01-01T00:00:00Z/PT15M"}
	for _, c := range benchmarked {
		exprs = append(exprs, c.expr)
	}
	for _, expr := range exprs {
		s := parsed(t, expr, schedule.Options{Location: ny})
		if n := testing.AllocsPerRun(100, func() {
			s.Next(after, after)
			s.Last(after, after)
			s.Count(after, after.Add(1000*time.Hour), after, 10)
		}); n != 0 {
			t.Errorf("%s: %v allocations", expr, n)
		}
	}
}

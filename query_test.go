package carillon_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

func TestPreview(t *testing.T) {
	for _, c := range []struct {
		what, schedule, zone, from, due string
		count                           int
		want                            string // times, or offsets from `from`
	}{
		{what: "cron", schedule: "0 0 2 * * *", from: "2026-11-21T02:00:00Z", count: 2,
			want: "2026-11-22T02:00:00Z 2026-11-23T02:00:00Z"},
		{what: "cron in a zone", schedule: "0 0 2 * * *", zone: "America/New_York",
			from: "2026-11-21T00:00:00Z", count: 1, want: "2026-11-21T07:00:00Z"},
		{what: "cron from now", schedule: "@hourly", count: 1, want: "2026-11-21T12:00:00Z"},
		{what: "cron from due_time", schedule: "@hourly", from: "2026-11-21T02:00:00Z",
			due: "2026-11-22T05:00:00Z", count: 2, want: "2026-11-22T05:00:00Z 2026-11-22T06:00:00Z"},
		{what: "every", schedule: "@every 10s", from: "2026-11-21T02:00:00Z", count: 3, want: "10s 20s 30s"},
		{what: "every from due_time", schedule: "@every 10s", from: "2026-11-21T02:00:00Z", due: "3s",
			count: 3, want: "3s 13s 23s"},
		{what: "every from a past due_time", schedule: "@every 1h", from: "2026-11-21T02:00:00Z",
			due: "2026-11-20T23:10:00Z", count: 2, want: "10m 1h10m"},
		{what: "every from a due_time that is from", schedule: "@every 1h", from: "2026-11-21T02:00:00Z",
			due: "0s", count: 2, want: "1h 2h"},
		{what: "repeat", schedule: "R4/PT3S", from: "2026-11-21T02:00:00Z", want: "3s 6s 9s 12s"},
		{what: "repeat, fewer", schedule: "R4/PT3S", from: "2026-11-21T02:00:00Z", count: 2, want: "3s 6s"},
		{what: "repeat from due_time", schedule: "R4/PT3S", from: "2026-11-21T02:00:00Z", due: "1s",
			want: "1s 4s 7s 10s"},
		{what: "repeat of which some are past", schedule: "R4/PT1H", from: "2026-11-21T02:00:00Z",
			due: "2026-11-21T00:30:00Z", want: "30m 1h30m"},
		{what: "repeat that is past", schedule: "R4/PT1H", from: "2026-11-21T02:00:00Z",
			due: "2026-11-20T00:30:00Z", want: ""},
		{what: "repeat with a start", schedule: "R3/2026-11-21T01:00:00Z/PT1H",
			from: "2026-11-21T02:00:00Z", want: "1h"},
		{what: "repeat of many", schedule: "R9999999999999999999/PT1H", from: "2026-11-21T02:00:00Z",
			due: "0s", count: 1, want: "1h"},
		{what: "months keep the anchor", schedule: "R/P1M", from: "2026-01-31T12:00:00Z", count: 2,
			want: "2026-02-28T12:00:00Z 2026-03-31T12:00:00Z"},
		{what: "several, once where they meet", schedule: "0 0 9 * * *; @every 3h; R2/2026-11-21T08:00:00Z/PT1H",
			from: "2026-11-21T03:00:00Z", count: 4, want: "3h 5h 6h 9h"},
		{what: "one-shot", from: "2026-11-21T02:00:00Z", due: "5m", want: "5m"},
		{what: "one-shot that is past", from: "2026-11-21T02:00:00Z", due: "2026-11-21T01:00:00Z", want: ""},
	} {
		from := now
		if c.from != "" {
			from = at(t, c.from)
		}
		q := carillon.PreviewQuery{Schedule: c.schedule, TimeZone: c.zone,
			Due: carillon.WhenText(c.due), Count: c.count}
		if c.from != "" {
			q.From = from
		}
		got, err := carillon.Preview(q, now)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var texts []string
		for i, w := range strings.Fields(c.want) {
			want, err := time.Parse(time.RFC3339, w)
			if err != nil {
				d, _ := time.ParseDuration(w)
				want = from.Add(d)
			}
			if i >= len(got) || !got[i].Equal(want) {
				texts = append(texts, w)
			}
		}
		if len(texts) > 0 || len(got) != len(strings.Fields(c.want)) || got == nil {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestPreviewCount(t *testing.T) {
	for count, want := range map[int]int{0: 10, 1: 1, 1000: 1000} {
		got, err := carillon.Preview(carillon.PreviewQuery{Schedule: "@daily", Count: count}, now)
		if err != nil || len(got) != want {
			t.Errorf("%d times for count %d, %v", len(got), count, err)
		}
	}
}

func TestPreviewThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		field, says string
		q           carillon.PreviewQuery
	}{
		{"schedule", "missing", carillon.PreviewQuery{}},
		{"schedule", "minute at position 2", carillon.PreviewQuery{Schedule: "0 61 * * * *"}},
		{"schedule", "minute at position 10", carillon.PreviewQuery{Schedule: "@daily; 0 61 * * * *"}},
		{"schedule", "repeat at position 8", carillon.PreviewQuery{Schedule: "@daily; R4/PT3S"}},
		{"time_zone", "unknown", carillon.PreviewQuery{Schedule: "@daily", TimeZone: "Nowhere"}},
		{"dst", "safe, literal", carillon.PreviewQuery{Schedule: "@daily", DST: 9}},
		{"due_time", "position", carillon.PreviewQuery{Schedule: "@daily", Due: carillon.WhenText("soon")}},
		{"from", "1970-", carillon.PreviewQuery{Schedule: "@daily", From: time.Unix(-1, 0)}},
		{"count", "1-1000", carillon.PreviewQuery{Schedule: "@daily", Count: 1001}},
		{"count", "1-1000", carillon.PreviewQuery{Schedule: "@daily", Count: -1}},
	} {
		_, err := carillon.Preview(c.q, now)
		if fieldOf(err) != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want an error about %s, saying %q", c.q, err, c.field, c.says)
		}
	}
}

// TestEveryQueueCanBeAskedFor: by each name that a queue may have, such as a host with its port.
func TestEveryQueueCanBeAskedFor(t *testing.T) {
	for _, name := range []string{"mail", "example.com:8080", "[::1]:80", "app/web", "actor/Cart", "a:b", "Ä ß"} {
		runs, workers := carillon.RunQuery{Queue: name}, carillon.WorkerQuery{Queue: name}
		if err := cmp.Or(runs.Validate(), workers.Validate()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a\x00", strings.Repeat("x", carillon.MaxName+1)} {
		runs, workers := carillon.RunQuery{Queue: name}, carillon.WorkerQuery{Queue: name}
		if runs.Validate() == nil || workers.Validate() == nil {
			t.Errorf("%.20q is accepted", name)
		}
	}
}

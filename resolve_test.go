package carillon_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// now is a Saturday in winter, not on a full second.
var now = time.Date(2026, 11, 21, 11, 30, 0, 500_000_000, time.UTC)

// at is RFC 3339, or an offset from now.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d)
	}
	v, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return v.UTC()
}

func TestDefaults(t *testing.T) {
	worker := carillon.Job{Target: carillon.WorkerQueue("q")}
	http := carillon.Job{Target: carillon.HTTP("http://a/")}
	set := carillon.Job{Timeout: 1, Lease: 2, Misfire: carillon.Misfire{Limit: 3},
		History: carillon.History{Runs: 4, Keep: 5}}
	none := carillon.Job{History: carillon.History{Runs: -1}}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"timeout of a worker", worker.TimeoutOrDefault(), 24 * time.Hour},
		{"timeout of http", http.TimeoutOrDefault(), 30 * time.Second},
		{"timeout", set.TimeoutOrDefault(), time.Duration(1)},
		{"default lease", worker.LeaseOrDefault(), 2 * time.Minute},
		{"lease", set.LeaseOrDefault(), time.Duration(2)},
		{"default catch-up", worker.CatchUpLimitOrDefault(), 1000},
		{"catch-up", set.CatchUpLimitOrDefault(), 3},
		{"default history", worker.HistoryRuns(), 20},
		{"history", set.HistoryRuns(), 4},
		{"no history", none.HistoryRuns(), 0},
		{"default keep", worker.HistoryKeep(), 72 * time.Hour},
		{"keep", set.HistoryKeep(), time.Duration(5)},
		{"default zone", worker.Location().String(), "UTC"},
		{"zone", (&carillon.Job{TimeZone: "Asia/Kathmandu"}).Location().String(), "Asia/Kathmandu"},
		{"zone that is unknown", (&carillon.Job{TimeZone: "Nowhere"}).Location().String(), "UTC"},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestNormalize(t *testing.T) {
	j := carillon.Job{Name: "a", Status: &carillon.JobStatus{}}
	j.Normalize()
	if j.Namespace != carillon.DefaultNamespace || j.Status != nil || j.TimeZone != "" {
		t.Errorf("%+v", j)
	}
	j.Namespace = "b"
	j.Normalize()
	if j.Namespace != "b" {
		t.Errorf("a namespace was changed to %q", j.Namespace)
	}
}

// TestLiteralDST: the option reaches the schedule.
func TestLiteralDST(t *testing.T) {
	count := func(dst carillon.DST) int {
		j := carillon.Job{Schedule: "0 30 1 * * *", TimeZone: "Europe/London", Calendars: carillon.CalendarRules{DST: dst}}
		s, err := j.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		return s.Count(at(t, "2026-03-29T00:00:00Z"), at(t, "2026-03-29T23:00:00Z"), now, 9) // 01:30 does not exist
	}
	if safe, literal := count(carillon.DSTSafe), count(carillon.DSTLiteral); safe != 1 || literal != 0 {
		t.Errorf("safe runs %d times, literal %d; want 1 and 0", safe, literal)
	}
}

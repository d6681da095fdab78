package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
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

func firstRun(j *carillon.Job) (anchor, next, expires time.Time, err error) {
	s, err := j.ParseSchedule()
	if err != nil {
		return anchor, next, expires, err
	}
	return plan.FirstRun(j, s, now)
}

func TestFirstRun(t *testing.T) {
	for _, c := range []struct {
		what, schedule, zone, due, ttl string
		anchor, next, expires          string
	}{
		{what: "one-shot", anchor: "0s", next: "0s"},
		{what: "one-shot later", due: "90s", anchor: "90s", next: "90s"},
		{what: "one-shot in the past, at once", due: "2026-11-21T11:00:00Z", anchor: "2026-11-21T11:00:00Z",
			next: "2026-11-21T11:00:00Z"},
		{what: "one-shot on the wall clock", due: "P1M", zone: "Europe/London",
			anchor: "2026-12-21T11:30:00.5Z", next: "2026-12-21T11:30:00.5Z"},
		{what: "ttl from creation", ttl: "1h", anchor: "0s", next: "0s", expires: "1h"},
		{what: "ttl from due_time", due: "1h", ttl: "5s", anchor: "1h", next: "1h", expires: "3605s"},
		{what: "ttl of no length is inclusive", due: "1h", ttl: "0s", anchor: "1h", next: "1h", expires: "1h"},
		{what: "absolute ttl", ttl: "2027-01-01T00:00:00Z", anchor: "0s", next: "0s",
			expires: "2027-01-01T00:00:00Z"},

		{what: "every", schedule: "@every 10s", anchor: "0s", next: "10s"},
		{what: "every from due_time", schedule: "@every 10s", due: "3s", anchor: "3s", next: "3s"},
		{what: "every from a past due_time keeps its phase", schedule: "@every 1h", due: "2026-11-21T08:15:00Z",
			anchor: "2026-11-21T08:15:00Z", next: "2026-11-21T11:15:00Z"},
		{what: "every in phase with the epoch", schedule: "@every 1h/19m", anchor: "0s",
			next: "2026-11-21T12:19:00Z"},
		{what: "every in phase from due_time", schedule: "@every 1h/19m", due: "2026-11-21T15:19:00Z",
			anchor: "2026-11-21T15:19:00Z", next: "2026-11-21T15:19:00Z"},
		{what: "repeat", schedule: "R4/PT3S", anchor: "0s", next: "3s"},
		{what: "repeat from due_time", schedule: "R4/PT3S", due: "1m", anchor: "1m", next: "1m"},
		{what: "repeat of months", schedule: "R/P1M", anchor: "0s", next: "2026-12-21T11:30:00.5Z"},
		{what: "repeat with a start to come", schedule: "R4/2026-12-01T00:00:00Z/P1D", anchor: "0s",
			next: "2026-12-01T00:00:00Z"},
		{what: "repeat with a past start", schedule: "R/2026-11-01T06:00:00Z/P1D", anchor: "0s",
			next: "2026-11-22T06:00:00Z"},
		{what: "repeat with a past start and due_time", schedule: "R/2026-11-01T06:00:00Z/P1D",
			due: "2026-11-20T00:00:00Z", anchor: "2026-11-20T00:00:00Z", next: "2026-11-21T06:00:00Z"},

		{what: "set", schedule: "0 0 2 * * *; @every 10h; R/P1M", anchor: "0s", next: "10h"},
		{what: "set from due_time", schedule: "0 0 2 * * *; @every 10s", due: "2026-12-01T01:00:00Z",
			anchor: "2026-12-01T01:00:00Z", next: "2026-12-01T01:00:00Z"},
		{what: "set in two zones", schedule: "TZ=Asia/Kathmandu 0 0 2 * * *; 0 0 22 * * *", zone: "Europe/London",
			anchor: "0s", next: "2026-11-21T20:15:00Z"},

		{what: "cron", schedule: "0 0 2 * * *", anchor: "0s", next: "2026-11-22T02:00:00Z"},
		{what: "cron in a zone", schedule: "0 0 2 * * *", zone: "Asia/Kathmandu", anchor: "0s",
			next: "2026-11-21T20:15:00Z"},
		{what: "cron from due_time", schedule: "0 0 2 * * *", due: "2026-12-01T00:00:00Z",
			anchor: "2026-12-01T00:00:00Z", next: "2026-12-01T02:00:00Z"},
		{what: "cron at due_time", schedule: "0 0 2 * * *", due: "2026-12-01T02:00:00Z",
			anchor: "2026-12-01T02:00:00Z", next: "2026-12-01T02:00:00Z"},
		{what: "cron from a past due_time fires once, the newest", schedule: "0 0 2 * * *",
			due: "2026-11-01T00:00:00Z", anchor: "2026-11-01T00:00:00Z", next: "2026-11-21T02:00:00Z"},
		{what: "cron from a past due_time without a match since", schedule: "0 0 2 * * *",
			due: "2026-11-21T09:00:00Z", anchor: "2026-11-21T09:00:00Z", next: "2026-11-22T02:00:00Z"},
		{what: "cron with ttl from due_time", schedule: "0 0 2 * * *", due: "2026-12-01T00:00:00Z", ttl: "P2D",
			anchor: "2026-12-01T00:00:00Z", next: "2026-12-01T02:00:00Z", expires: "2026-12-03T00:00:00Z"},
	} {
		t.Run(c.what, func(t *testing.T) {
			j := carillon.Job{Schedule: c.schedule, TimeZone: c.zone, Due: carillon.WhenText(c.due),
				TTL: carillon.WhenText(c.ttl)}
			anchor, next, expires, err := firstRun(&j)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []struct {
				name string
				got  time.Time
				want string
			}{{"anchor", anchor, c.anchor}, {"next", next, c.next}, {"expires", expires, c.expires}} {
				if want := at(t, x.want); !x.got.Equal(want) {
					t.Errorf("%s is %v, want %v", x.name, x.got, want)
				}
			}
		})
	}
}

func TestFirstRunThatNeverComes(t *testing.T) {
	for _, c := range []struct{ what, schedule, due, ttl, field, says string }{
		{"due_time", "", "soon", "", "due_time", "position 0"},
		{"due_time beyond what is kept", "", "2500000h", "", "due_time", "2262-"},
		{"due_time at the epoch, which means none", "", "1970-01-01T00:00:00Z", "", "due_time", "1970-"},
		{"ttl", "", "", "soon", "ttl", "position 0"},
		{"ttl beyond what is kept", "", "", "P300Y", "ttl", "2262-"},
		{"life is over", "", "", "2026-11-21T11:00:00Z", "ttl", "ended at 2026-11-21T11:00:00Z"},
		{"life from a past due_time is over", "", "2026-11-21T10:00:00Z", "1h", "ttl",
			"ended at 2026-11-21T11:00:00Z"},
		{"life too short for the schedule", "0 0 2 * * *", "", "1h", "ttl", "the run is at 2026-11-22T02:00:00Z"},
		{"life too short for an interval", "@every 10s", "", "9s", "ttl", "before its first run"},
		{"years are past", "0 0 0 1 1 * 2020", "", "", "schedule", "never fires after 2026-11-21"},
		{"a period too long", "R/P300Y", "", "", "schedule", "never fires"},
		{"repeats are over", "R4/2026-01-01T00:00:00Z/P1D", "", "", "schedule", "never fires"},
	} {
		j := carillon.Job{Schedule: c.schedule, Due: carillon.WhenText(c.due), TTL: carillon.WhenText(c.ttl)}
		anchor, next, expires, err := firstRun(&j)
		if fieldOf(err) != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error about %s, saying %q", c.what, err, c.field, c.says)
		}
		if !anchor.IsZero() || !next.IsZero() || !expires.IsZero() {
			t.Errorf("%s: times beside an error", c.what)
		}
	}
}

// TestFirstRunMissesNothing: whatever a valid job says, it either never runs or runs first at a time of its
// schedule, with no other between that and now, and within its life.
func TestFirstRunMissesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := anyTiming(t)
		s, err := j.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		moment := now.Add(time.Duration(rapid.Int64Range(0, 1e18).Draw(t, "now")))
		anchor, next, expires, err := plan.FirstRun(&j, s, moment)
		if err != nil {
			return
		}
		for _, at := range []time.Time{anchor, next} {
			if !carillon.Storable(at) {
				t.Fatalf("%v cannot be stored", at)
			}
		}
		if !expires.IsZero() && (next.After(expires) || expires.Before(moment)) {
			t.Fatalf("runs first at %v, ends at %v", next, expires)
		}
		if j.Due.IsZero() && next.Before(moment) {
			t.Fatalf("runs first at %v, before it was put at %v", next, moment)
		}
		if s == nil {
			return
		}
		if again, _ := s.Last(next, anchor); !again.Equal(next) {
			t.Fatalf("%v is no time of %q, the last one before is %v", next, j.Schedule, again)
		}
		if n := s.Count(next, moment, anchor, 1); n != 0 {
			t.Fatalf("put at %v, it runs first at %v and misses some", moment, next)
		}
	})
}

func TestEffectiveRepeats(t *testing.T) {
	for _, c := range []struct {
		schedule      string
		repeats, want uint64
	}{
		{"", 0, 0}, {"@daily", 0, 0}, {"@daily", 3, 3}, {"R4/PT3S", 0, 4}, {"R4/PT3S", 3, 3}, {"R4/PT3S", 5,
			4}, {"R/PT3S", 5, 5}, {"R/PT3S", 0, 0},
	} {
		j := carillon.Job{Schedule: c.schedule, Repeats: c.repeats}
		s, err := j.ParseSchedule()
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.EffectiveRepeats(&j, s); got != c.want {
			t.Errorf("%q with repeats %d: %d, want %d", c.schedule, c.repeats, got, c.want)
		}
	}
}

// TestFirstRunOfDapr: a job of Dapr with a due time runs at it, be it past and whether or not the schedule
// has it, and its life may be over as long as it begins before that.
func TestFirstRunOfDapr(t *testing.T) {
	for _, c := range []struct{ what, schedule, due, ttl, next, expires string }{
		{"no due time", "0 0 * * * *", "", "", "2026-11-21T12:00:00Z", ""},
		{"due later, beside the schedule", "0 0 * * * *", "10s", "", "10s", ""},
		{"due in the past, beside the schedule", "0 0 * * * *", "2026-11-21T08:15:00Z", "",
			"2026-11-21T08:15:00Z", ""},
		{"due in the past, an interval", "@every 1h", "2026-11-21T08:15:00Z", "", "2026-11-21T08:15:00Z", ""},
		{"a life that is over", "@every 1h", "2026-11-21T08:15:00Z", "2h", "2026-11-21T08:15:00Z",
			"2026-11-21T10:15:00Z"},
		{"a life of no length", "@every 1h", "2026-11-21T08:15:00Z", "0s", "2026-11-21T08:15:00Z",
			"2026-11-21T08:15:00Z"},
		{"once, in the past", "", "2026-11-21T08:15:00Z", "", "2026-11-21T08:15:00Z", ""},
	} {
		j := daprJob(c.schedule, c.due, c.ttl)
		_, next, expires, err := firstRun(&j)
		if err != nil || !next.Equal(at(t, c.next)) || !expires.Equal(at(t, c.expires)) {
			t.Errorf("%s: %v, expires %v: %v", c.what, next, expires, err)
		}
	}
}

// TestALifeThatEndsFirst is told from every other fault.
func TestALifeThatEndsFirst(t *testing.T) {
	for _, c := range []struct {
		what, schedule, due, ttl string
		ends                     bool
	}{
		{"before the next time", "0 0 * * * *", "", "1m", true},
		{"before it was put", "0 0 * * * *", "", "2026-11-21T08:15:00Z", true},
		{"no length", "0 0 * * * *", "", "0s", true},
		{"before the due time", "0 0 * * * *", "10s", "2026-11-21T08:15:00Z", true},
		{"with it", "0 0 * * * *", "", "2026-11-21T12:00:00Z", false},
		{"unreadable", "0 0 * * * *", "", "soon", false},
		{"a schedule without times", "0 0 0 1 1 * 2020", "", "1h", false},
	} {
		j := daprJob(c.schedule, c.due, c.ttl)
		_, _, _, err := firstRun(&j)
		if got := errors.Is(err, carillon.ErrEndsFirst); got != c.ends {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.ends && (!errors.Is(err, carillon.InvalidArgument) || fieldOf(err) != "ttl") {
			t.Errorf("%s: %+v", c.what, err)
		}
	}
}

func daprJob(sched, due, ttl string) carillon.Job {
	return carillon.Job{Schedule: sched, Due: carillon.WhenText(due), TTL: carillon.WhenText(ttl),
		Target: carillon.Target{Dapr: &carillon.DaprTarget{AppID: "x"}}}
}

// fieldOf is the field of an *Error; "" for no error.
func fieldOf(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Kind == carillon.InvalidArgument {
		return e.Field
	}
	return "not an invalid argument: " + err.Error()
}

var (
	someSchedules = []string{"", "0 0 2 * * *", "*/5 * * * *", "30 1 29 2 *", "0 0 12 L * ? 2020-2199/4",
		"@daily", "@every 10s", "@every 1h/19m",
		"R4/PT3S", "R/P1M", "R20/2026-01-01T00:00:00Z/PT15M", "R/2026-01-31T12:00:00Z/P1M",
		"TZ=Asia/Tokyo 0 9 * * FRI-MON", "0 9 * * MON-FRI; 0 12 * * SAT", "@every 7m; R/P1M; R3/2026-11-20T00:00:00Z/P1D"}
	someZones = []string{"", "UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}
	someDues  = []string{"", "0s", "90s", "PT1H", "P1M", "2020-02-29T12:00:00Z", "2026-11-21T11:30:00.5Z",
		"2099-12-31T23:59:59+01:00"}
	someTTLs = []string{"", "1h", "P400D", "2100-01-01T00:00:00Z"}
)

// anyTiming draws a job of which only the timing matters.
func anyTiming(t *rapid.T) carillon.Job {
	pick := func(label string, from []string) string { return rapid.SampledFrom(from).Draw(t, label) }
	return carillon.Job{
		Schedule: pick("schedule", someSchedules), TimeZone: pick("zone", someZones),
		Calendars: carillon.CalendarRules{DST: rapid.SampledFrom([]carillon.DST{carillon.DSTSafe,
			carillon.DSTLiteral}).Draw(t, "dst")},
		Due: carillon.WhenText(pick("due", someDues)), TTL: carillon.WhenText(pick("ttl", someTTLs)),
	}
}

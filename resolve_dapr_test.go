package carillon_test

import (
	"errors"
	"testing"

	"github.com/carillonhq/carillon"
)

// TestFirstRunOfDapr: a job of Dapr with a due time runs at it, be it past and whether or not the schedule
// has it, and its life may be over as long as it begins before that.
func TestFirstRunOfDapr(t *testing.T) {
	for _, c := range []struct{ what, schedule, due, ttl, next, expires string }{
		{"no due time", "0 0 * * * *", "", "", "2026-11-21T12:00:00Z", ""},
		{"due later, beside the schedule", "0 0 * * * *", "10s", "", "10s", ""},
		{"due in the past, beside the schedule", "0 0 * * * *", "2026-11-21T08:15:00Z", "", "2026-11-21T08:15:00Z", ""},
		{"due in the past, an interval", "@every 1h", "2026-11-21T08:15:00Z", "", "2026-11-21T08:15:00Z", ""},
		{"a life that is over", "@every 1h", "2026-11-21T08:15:00Z", "2h", "2026-11-21T08:15:00Z", "2026-11-21T10:15:00Z"},
		{"a life of no length", "@every 1h", "2026-11-21T08:15:00Z", "0s", "2026-11-21T08:15:00Z", "2026-11-21T08:15:00Z"},
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

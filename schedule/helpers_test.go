package schedule_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the tests need every zone, whatever the machine has

	"github.com/carillonhq/carillon/schedule"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func parsed(t testing.TB, expr string, opt schedule.Options) *schedule.Schedule {
	t.Helper()
	s, err := schedule.Parse(expr, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at reads RFC 3339.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

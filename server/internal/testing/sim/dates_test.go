package sim_test

import (
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/internal/testing/sim"
)

// TestCalendarsLeaveTimesOut of schedules, and nothing else: the other times run, and each that does not has a
// record.
func TestCalendarsLeaveTimesOut(t *testing.T) {
	for _, profile := range []sim.Profile{sim.Dates, sim.DatesOfACluster} {
		t.Run(profile.Name, func(t *testing.T) {
			n := fewer(*seeds / 10)
			var excluded atomic.Int64
			eachSeed(t, n, func(t *testing.T, i uint64) {
				p := profile.Generate(i)
				h := live(t, &p, sim.Options{})
				if v := checker.Check(h, checker.Spec{}); v.Result == checker.Failed {
					t.Errorf("%s", v)
				}
				for k := range h.Final.Runs {
					if h.Final.Runs[k].Reason == "calendar" {
						excluded.Add(1)
					}
				}
			})
			t.Logf("%d stretches were excluded", excluded.Load())
			if n >= 10 && excluded.Load() < int64(n) {
				t.Errorf("%d stretches that were excluded in %d seeds show nothing", excluded.Load(), n)
			}
		})
	}
}

// dateMutants are aimed at calendars.
var dateMutants = []mutant{
	{"a job forgets its calendar", sim.Dates, []string{"S19"},
		edit(func(j *carillon.Job) { j.Calendars.Except = nil })},
	{"a calendar excludes all that another leaves", sim.Dates, []string{"S12", "S3"}, edit(func(j *carillon.Job) {
		j.Calendars.Only, j.Calendars.Except = j.Calendars.Except, nil
	})},
}

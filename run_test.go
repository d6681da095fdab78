package carillon_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestWrongWords has every field of what is neither a job nor a run wrong in turn.
func TestWrongWords(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	spec := func(change func(*carillon.BackfillSpec)) error {
		s := carillon.BackfillSpec{From: now.Add(-time.Hour), To: now, Rate: 0.5}
		change(&s)
		return s.Validate(now)
	}
	limits := func(m map[string]int) error {
		return (&carillon.Namespace{Name: "n", ConcurrencyLimits: m}).Validate()
	}
	progress := func(percent float64, message string) error {
		return (&carillon.Result{Outcome: carillon.OutcomeProgress,
			Progress: carillon.Progress{Percent: percent, Message: message}}).Validate()
	}
	reschedule := func(at time.Time) error {
		return (&carillon.Result{Outcome: carillon.OutcomeReschedule, At: at}).Validate()
	}
	for _, c := range []struct {
		err         error
		field, says string // "" = nothing is wrong
	}{
		{spec(func(*carillon.BackfillSpec) {}), "", ""},
		{spec(func(s *carillon.BackfillSpec) { s.From = now }), "", ""},
		{spec(func(s *carillon.BackfillSpec) { s.Overlap = carillon.OverlapAllow }), "", ""},
		{spec(func(s *carillon.BackfillSpec) { s.From = time.Time{} }), "from", "missing"},
		{spec(func(s *carillon.BackfillSpec) { s.To = time.Time{} }), "to", "missing"},
		{spec(func(s *carillon.BackfillSpec) { s.From = now.Add(1) }), "to", "before from"},
		{spec(func(s *carillon.BackfillSpec) { s.To = now.Add(1) }), "to", "yet to come"},
		{spec(func(s *carillon.BackfillSpec) { s.Overlap = carillon.OverlapSkip }), "overlap", "serial or allow"},
		{spec(func(s *carillon.BackfillSpec) { s.Rate = -1 }), "rate", "between 0"},
		{spec(func(s *carillon.BackfillSpec) { s.Rate = math.NaN() }), "rate", "between 0"},
		{spec(func(s *carillon.BackfillSpec) { s.Rate = math.Inf(1) }), "rate", "between 0"},

		{limits(nil), "", ""},
		{limits(map[string]int{"a": 0, "b": carillon.MaxLimit}), "", ""},
		{(&carillon.Namespace{Name: "a_b"}).Validate(), "name", "a-z"},
		{limits(map[string]int{"": 1}), "concurrency_limits", "empty"},
		{limits(map[string]int{"a\n": 1}), "concurrency_limits", "printable"},
		{limits(map[string]int{"a": -1}), "concurrency_limits.a", "out of range"},
		{limits(map[string]int{"a": carillon.MaxLimit + 1}), "concurrency_limits.a", "out of range"},

		{(&carillon.Result{Progress: carillon.Progress{Percent: -1}}).Validate(), "", ""},
		{progress(0, ""), "", ""},
		{progress(100, strings.Repeat("x", carillon.MaxProgressMessage)), "", ""},
		{progress(-0.1, ""), "progress.percent", "between 0 and 100"},
		{progress(100.1, ""), "progress.percent", "between 0 and 100"},
		{progress(math.NaN(), ""), "progress.percent", "NaN"},
		{progress(1, strings.Repeat("x", carillon.MaxProgressMessage+1)), "progress.message", "more than 1024"},
		{progress(1, "caf\xe9"), "progress.message", "UTF-8"},
		{reschedule(now), "", ""},
		{reschedule(time.Time{}), "at", "missing"},
		{reschedule(carillon.LatestTime.Add(1)), "at", "is not between"},
	} {
		if c.field == "" && c.err == nil {
			continue
		}
		if c.field == "" || fieldOf(c.err) != c.field || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%v; want the field %q and %q", c.err, c.field, c.says)
		}
	}
}

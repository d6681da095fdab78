package plan_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
)

func TestEveryFieldHasAnEffect(t *testing.T) {
	for _, field := range carillon.PatchFields() {
		if plan.EffectOf(field) == 0 {
			t.Errorf("%s has none", field)
		}
	}
	for _, path := range carillon.PatchParts() {
		field, _, _ := strings.Cut(path, ".")
		if got := plan.EffectOf(path); got == 0 || got != plan.EffectOf(field) {
			t.Errorf("%s has %d, and %s has %d", path, got, field, plan.EffectOf(field))
		}
	}
	for _, path := range []string{"", "name", "status", "schedule.minute", "history.size"} {
		if got := plan.EffectOf(path); got != 0 {
			t.Errorf("%q has %d, and a patch cannot name it", path, got)
		}
	}
}

// TestContentIsWhatHasAnEffect changes each field by itself.
func TestContentIsWhatHasAnEffect(t *testing.T) {
	full := carillon.Job{Schedule: "@daily", TimeZone: "Europe/London", Calendars: carillon.CalendarRules{DST: carillon.DSTLiteral, Except: []string{"a"}, Only: []string{"b"}},
		Due: carillon.WhenText("1h"), Repeats: 2,
		TTL: carillon.WhenText("2h"), Jitter: 1, Data: carillon.JSON(1), Metadata: map[string]string{"a": "b"},
		Labels: map[string]string{"a": "b"}, Target: carillon.WorkerQueue("q"), FailurePolicy: carillon.Drop(),
		Timeout: 1, Lease: 1, Overlap: carillon.OverlapSkip, Misfire: carillon.Misfire{Rule: carillon.MisfireAll,
			Limit: 1, Window: 1}, Priority: carillon.PriorityHigh, ConcurrencyKey: "k", DependsOn: []string{"a"},
		Paused: true, Note: "n", History: carillon.History{Runs: 1}}
	for _, field := range carillon.PatchFields() {
		with, err := carillon.Patch{Fields: []string{field}, Job: full}.Apply(carillon.Job{})
		if err != nil {
			t.Fatal(err)
		}
		same := reflect.DeepEqual(plan.Content(with), plan.Content(carillon.Job{}))
		if same != (plan.EffectOf(field) == plan.EffectNone) {
			t.Errorf("%s: content is the same: %t; effect %d", field, same, plan.EffectOf(field))
		}
	}
}

func TestAPatchNamesAnEffect(t *testing.T) {
	p := carillon.Patch{Fields: []string{"note", "failure_policy.max_retries"}}
	for effect, want := range map[plan.Effect]bool{plan.EffectNone: true, plan.EffectFence: true,
		plan.EffectNext: false, plan.EffectTimes: false} {
		if got := plan.Names(&p, effect); got != want {
			t.Errorf("effect %d: %t", effect, got)
		}
	}
}

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestJobGetShowsEveryField sets each field, and each field of a policy, by itself.
func TestJobGetShowsEveryField(t *testing.T) {
	show := func(j carillon.Job) string { return jobDescription(&j) }
	full := carillon.Job{Schedule: "@daily", TimeZone: "Europe/London", Calendars: carillon.CalendarRules{DST: carillon.DSTLiteral,
		Except: []string{"a"}, Only: []string{"b"}},
		Due: carillon.WhenText("1h"), Repeats: 2,
		TTL: carillon.WhenText("2h"), Jitter: 1, Data: carillon.JSON(1), Metadata: map[string]string{"a": "b"},
		Labels: map[string]string{"a": "b"}, Target: carillon.WorkerQueue("q"), FailurePolicy: carillon.Drop(),
		Timeout: 1, Lease: 1, Overlap: carillon.OverlapSkip,
		Misfire: carillon.Misfire{Rule: carillon.MisfireAll, Limit: 1, Window: 1}, Priority: carillon.PriorityHigh,
		ConcurrencyKey: "k", DependsOn: []string{"a"}, Note: "n",
		History: carillon.History{Runs: 1, Keep: time.Hour}}
	retries := uint32(7)
	policies := map[carillon.PolicyKind]carillon.FailurePolicy{
		carillon.PolicyConstant: {Kind: carillon.PolicyConstant,
			Interval: 1}, carillon.PolicySchedule: carillon.OnSchedule("* * * * *"),
		carillon.PolicyExponential: {Kind: carillon.PolicyExponential, Initial: 1, Factor: 3, Max: 4, Jitter: 5},
	}
	for _, field := range append(carillon.PatchFields(), carillon.PatchParts()...) {
		switch field {
		case "content_type", "paused": // the one is shown with data that is no text, the other as the phase
			continue
		case "failure_policy.drop":
			continue // the field failure_policy has it
		}
		with := full
		for kind, p := range policies {
			if len(field) > len("failure_policy.") && strings.Contains(field, "."+kind.String()) {
				with.FailurePolicy = p
			}
		}
		with.FailurePolicy.MaxRetries, with.FailurePolicy.OnExhausted = &retries, carillon.ExhaustedDead
		with.FailurePolicy.PauseAfter, with.History.NoResults = 3, true
		job, err := carillon.Patch{Fields: []string{field}, Job: with}.Apply(carillon.Job{})
		if err != nil {
			t.Fatal(err)
		}
		if show(job) == show(carillon.Job{}) {
			t.Errorf("%s is not shown", field)
		}
	}
}

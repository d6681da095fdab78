package carillon_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// policies has each form with all of its fields set, n times as far.
func policies(n int) map[string]carillon.FailurePolicy {
	step := time.Duration(n) * time.Second
	all := map[string]carillon.FailurePolicy{
		"drop": carillon.Drop(), "constant": carillon.Constant(step).WithMaxRetries(uint32(n)),
		"schedule":    carillon.OnSchedule("@" + []string{"daily", "hourly"}[n%2]).WithMaxRetries(uint32(n)),
		"exponential": carillon.Exponential(step).WithMaxRetries(uint32(n)),
	}
	e := all["exponential"]
	e.Factor, e.Max, e.Jitter = float64(n), 100*step, step
	all["exponential"] = e
	return all
}

// partFields are the fields of Go that the last elements of paths stand for.
var partFields = map[string]string{"interval": "Interval", "cron": "Schedule", "initial": "Initial", "factor": "Factor", "max": "Max",
	"jitter": "Jitter", "max_retries": "MaxRetries", "on_exhausted": "OnExhausted", "runs": "Runs", "keep": "Keep"}

// TestAPatchOfOnePart changes that field of the policy to what is given, or back, and leaves all others.
func TestAPatchOfOnePart(t *testing.T) {
	for _, path := range carillon.PatchParts() {
		words := strings.Split(path, ".")
		for form, policy := range policies(2) {
			if _, isForm := policies(1)[words[1]]; isForm && words[1] != form || path == "failure_policy.max_retries" && form == "drop" {
				continue
			}
			old := carillon.Job{FailurePolicy: policy, History: carillon.History{Runs: 7, Keep: time.Hour}}
			old.FailurePolicy.OnExhausted = carillon.ExhaustedDrop
			given := carillon.Job{FailurePolicy: policies(3)[form], History: carillon.History{Runs: 8, Keep: time.Minute}}
			for _, from := range []carillon.Job{given, {FailurePolicy: carillon.FailurePolicy{Kind: old.FailurePolicy.Kind}}} {
				got, err := carillon.Patch{Fields: []string{path}, Job: from}.Apply(old)
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				want := old
				for _, at := range []struct{ to, from any }{{&want.FailurePolicy, from.FailurePolicy}, {&want.History, from.History}} {
					name := partFields[words[len(words)-1]]
					if field := reflect.ValueOf(at.to).Elem().FieldByName(name); field.IsValid() {
						field.Set(reflect.ValueOf(at.from).FieldByName(name))
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s of %s: %+v, not %+v", path, form, got, want)
				}
			}
		}
	}
}

// TestAPatchOfAnotherForm gives the job that form; of the form before only on_exhausted stays, and the
// defaults of a job without a policy count as one.
func TestAPatchOfAnotherForm(t *testing.T) {
	type policy = carillon.FailurePolicy
	const constant, interval = "failure_policy.constant", "failure_policy.constant.interval"
	dead := carillon.Exponential(time.Hour).WithMaxRetries(9)
	dead.OnExhausted = carillon.ExhaustedDead
	ten := carillon.Constant(10 * time.Second)
	tenDead := ten
	tenDead.OnExhausted = carillon.ExhaustedDead
	for name, c := range map[string]struct {
		schedule  string
		old, from policy
		path      string
		want      policy
	}{
		"another form":                     {"", dead, ten, interval, tenDead},
		"none, of a schedule":              {"@daily", policy{}, ten, interval, ten.WithMaxRetries(carillon.DefaultRecurringRetries)},
		"none, of a one-shot":              {"", policy{}, ten, interval, ten},
		"retries of none, of a schedule":   {"@daily", policy{}, policy{}.WithMaxRetries(5), "failure_policy.max_retries", carillon.Constant(time.Second).WithMaxRetries(5)},
		"retries of none, of a one-shot":   {"", policy{}, policy{}.WithMaxRetries(5), "failure_policy.max_retries", carillon.Exponential(0).WithMaxRetries(5)},
		"retries, in a message":            {"", ten, carillon.Exponential(0).WithMaxRetries(5), "failure_policy.max_retries", ten.WithMaxRetries(5)},
		"the form is taken away":           {"", tenDead, policy{}, constant, policy{OnExhausted: carillon.ExhaustedDead}},
		"a form that it has not goes away": {"", dead, policy{}, constant, dead},
		"the whole policy":                 {"", dead, ten, "failure_policy", ten},
	} {
		got, err := carillon.Patch{Fields: []string{c.path}, Job: carillon.Job{FailurePolicy: c.from}}.Apply(
			carillon.Job{Schedule: c.schedule, FailurePolicy: c.old})
		if err != nil || !reflect.DeepEqual(got.FailurePolicy, c.want) {
			t.Errorf("%s: %+v, %v, not %+v", name, got.FailurePolicy, err, c.want)
		}
	}
	wrong := carillon.Patch{Fields: []string{interval}, Job: carillon.Job{FailurePolicy: dead}}
	if _, err := wrong.Apply(carillon.Job{}); blamed(err) != interval {
		t.Errorf("a field of a form that is not given: %v", err)
	}
}

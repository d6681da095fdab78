package carillon_test

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestPolicyDefaults is what each policy resolves to.
func TestPolicyDefaults(t *testing.T) {
	exponential := func(initial time.Duration, retries uint32, end carillon.OnExhausted) carillon.FailurePolicy {
		return carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: initial, Factor: 2,
			Max: time.Hour, MaxRetries: &retries, OnExhausted: end}
	}
	constant := func(retries uint32, end carillon.OnExhausted) carillon.FailurePolicy {
		return carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second,
			MaxRetries: &retries, OnExhausted: end}
	}
	unlimited := func(p carillon.FailurePolicy, end carillon.OnExhausted) carillon.FailurePolicy {
		p.OnExhausted = end
		return p
	}
	const dead, drop = carillon.ExhaustedDead, carillon.ExhaustedDrop
	for _, c := range []struct {
		what      string
		policy    carillon.FailurePolicy
		recurring bool
		want      carillon.FailurePolicy
	}{
		{"none, one-shot", carillon.FailurePolicy{}, false, exponential(2*time.Second, 4, dead)},
		{"none, recurring", carillon.FailurePolicy{}, true, constant(3, drop)},
		{"on_exhausted, one-shot", carillon.FailurePolicy{OnExhausted: drop}, false,
			exponential(2*time.Second, 4, drop)},
		{"on_exhausted, recurring", carillon.FailurePolicy{OnExhausted: dead}, true, constant(3, dead)},
		{"drop, one-shot", carillon.Drop(), false,
			carillon.FailurePolicy{Kind: carillon.PolicyDrop, OnExhausted: drop}},
		{"drop, recurring", carillon.Drop(), true,
			carillon.FailurePolicy{Kind: carillon.PolicyDrop, OnExhausted: drop}},
		{"constant, one-shot", carillon.Constant(time.Second), false,
			unlimited(carillon.Constant(time.Second), dead)},
		{"constant, recurring", carillon.Constant(time.Second), true,
			unlimited(carillon.Constant(time.Second), drop)},
		{"constant, limited", carillon.Constant(time.Second).WithMaxRetries(7), false, constant(7, dead)},
		{"cron", carillon.OnSchedule("@daily"), false, unlimited(carillon.OnSchedule("@daily"), dead)},
		{"exponential, one-shot", carillon.Exponential(time.Second), false, exponential(time.Second, 4, dead)},
		{"exponential, recurring", carillon.Exponential(0), true, exponential(2*time.Second, 4, drop)},
		{"exponential, no retries", carillon.Exponential(0).WithMaxRetries(0), false,
			exponential(2*time.Second, 0, dead)},
	} {
		got := c.policy.Resolve(c.recurring)
		if !samePolicy(got, c.want) {
			t.Errorf("%s: %+v\nwant %+v", c.what, got, c.want)
		}
		if again := got.Resolve(c.recurring); !samePolicy(again, got) {
			t.Errorf("%s: resolved twice it is %+v", c.what, again)
		}
	}
}

// samePolicy compares what MaxRetries points at.
func samePolicy(a, b carillon.FailurePolicy) bool {
	if (a.MaxRetries == nil) != (b.MaxRetries == nil) ||
		(a.MaxRetries != nil && *a.MaxRetries != *b.MaxRetries) {
		return false
	}
	a.MaxRetries, b.MaxRetries = nil, nil
	return a == b
}

package carillon_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
)

// TestPolicyDefaults is what each policy resolves to.
func TestPolicyDefaults(t *testing.T) {
	exponential := func(initial time.Duration, retries uint32, end carillon.OnExhausted) carillon.FailurePolicy {
		return carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: initial, Factor: 2, Max: time.Hour, MaxRetries: &retries, OnExhausted: end}
	}
	constant := func(retries uint32, end carillon.OnExhausted) carillon.FailurePolicy {
		return carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: time.Second, MaxRetries: &retries, OnExhausted: end}
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
		{"on_exhausted, one-shot", carillon.FailurePolicy{OnExhausted: drop}, false, exponential(2*time.Second, 4, drop)},
		{"on_exhausted, recurring", carillon.FailurePolicy{OnExhausted: dead}, true, constant(3, dead)},
		{"drop, one-shot", carillon.Drop(), false, carillon.FailurePolicy{Kind: carillon.PolicyDrop, OnExhausted: drop}},
		{"drop, recurring", carillon.Drop(), true, carillon.FailurePolicy{Kind: carillon.PolicyDrop, OnExhausted: drop}},
		{"constant, one-shot", carillon.Constant(time.Second), false, unlimited(carillon.Constant(time.Second), dead)},
		{"constant, recurring", carillon.Constant(time.Second), true, unlimited(carillon.Constant(time.Second), drop)},
		{"constant, limited", carillon.Constant(time.Second).WithMaxRetries(7), false, constant(7, dead)},
		{"cron", carillon.OnSchedule("@daily"), false, unlimited(carillon.OnSchedule("@daily"), dead)},
		{"exponential, one-shot", carillon.Exponential(time.Second), false, exponential(time.Second, 4, dead)},
		{"exponential, recurring", carillon.Exponential(0), true, exponential(2*time.Second, 4, drop)},
		{"exponential, no retries", carillon.Exponential(0).WithMaxRetries(0), false, exponential(2*time.Second, 0, dead)},
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
	if (a.MaxRetries == nil) != (b.MaxRetries == nil) || (a.MaxRetries != nil && *a.MaxRetries != *b.MaxRetries) {
		return false
	}
	a.MaxRetries, b.MaxRetries = nil, nil
	return a == b
}

func TestRetryWarning(t *testing.T) {
	withJitter := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: 200 * time.Millisecond, Jitter: 500 * time.Millisecond}.WithMaxRetries(3)
	steep := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: time.Second, Factor: 1e300, Max: 10 * time.Second}.WithMaxRetries(1_000_000)
	gentle := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: 1, Factor: 1.000001, Max: time.Second}.WithMaxRetries(1_000_000)
	flat := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: time.Second, Factor: 1}.WithMaxRetries(10)
	capped := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: time.Second, Max: 8 * time.Second}.WithMaxRetries(5)
	huge := carillon.FailurePolicy{Kind: carillon.PolicyConstant, Interval: carillon.MaxSpan}.WithMaxRetries(1_000_000)
	for _, c := range []struct {
		what, schedule string
		repeats        uint64
		policy         carillon.FailurePolicy
		says           string // both numbers; "" for no warning
	}{
		{"with jitter", "@every 2900ms", 0, withJitter, "2.9s 2.9s"},
		{"just below the interval", "@every 2901ms", 0, withJitter, ""},
		{"a one-shot", "", 0, withJitter, ""},
		{"the default", "@every 3s", 0, carillon.FailurePolicy{}, "3s 3s"},
		{"the default, slower", "@every 4s", 0, carillon.FailurePolicy{}, ""},
		{"drop", "@every 1ms", 0, carillon.Drop(), ""},
		{"constant", "@every 1m", 0, carillon.Constant(time.Second).WithMaxRetries(60), "1m0s 1m0s"},
		{"without end", "@daily", 0, carillon.Constant(time.Second), "end 24h0m0s"},
		{"only one run", "@daily", 1, carillon.Constant(time.Second), ""},
		{"only one run of a repeat", "R1/PT3S", 0, carillon.Constant(time.Second), ""},
		{"cron", "*/2 * * * * *", 0, carillon.FailurePolicy{}, "3s 2s"},
		{"cron with an uneven interval", "0,58 * * * * *", 0, carillon.FailurePolicy{}, "3s 2s"},
		{"cron of every 7 minutes, and 4 once an hour", "*/7 * * * *", 0, carillon.Constant(time.Minute).WithMaxRetries(5), "5m0s 4m0s"},
		{"cron of every other day, and the next once a month", "0 0 */2 * *", 0, carillon.Constant(time.Hour).WithMaxRetries(30), "30h0m0s 24h0m0s"},
		{"cron of minutes", "*/5 * * * *", 0, carillon.FailurePolicy{}, ""},
		{"months", "R/P1M", 0, carillon.Constant(time.Hour).WithMaxRetries(28 * 24), "672h0m0s 672h0m0s"},
		{"retries on a cron", "@every 1m", 0, carillon.OnSchedule("*/10 * * * * *").WithMaxRetries(6), "1m0s 1m0s"},
		{"few retries on a cron", "@every 1m", 0, carillon.OnSchedule("*/10 * * * * *").WithMaxRetries(5), ""},
		{"capped: 1+2+4+8+8", "@every 23s", 0, capped, "23s 23s"},
		{"capped, slower", "@every 23001ms", 0, capped, ""},
		{"no growth", "@every 10s", 0, flat, "10s 10s"},
		{"growth beyond numbers", "@every 1h", 0, steep, "2777h46m31s 1h0m0s"},
		{"hardly any growth", "@every 1ms", 0, gentle, "1.71828ms 1ms"},
		{"beyond what a duration holds", "@daily", 0, huge, "end 24h0m0s"},
		{"a schedule that is past", "0 0 0 1 1 * 1999", 0, carillon.Constant(time.Second), ""},
		{"a schedule that is wrong", "nonsense", 0, carillon.Constant(time.Second), ""},
	} {
		j := carillon.Job{Schedule: c.schedule, Repeats: c.repeats, FailurePolicy: c.policy}
		got := carillon.RetryWarning(&j)
		if (got == "") != (c.says == "") {
			t.Errorf("%s: %q", c.what, got)
		}
		for word := range strings.FieldsSeq(c.says) {
			if !strings.Contains(got, word) {
				t.Errorf("%s: %q does not say %q", c.what, got, word)
			}
		}
	}
}

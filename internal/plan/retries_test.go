package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
)

func TestRetryWarning(t *testing.T) {
	withJitter := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: 200 * time.Millisecond,
		Jitter: 500 * time.Millisecond}.WithMaxRetries(3)
	steep := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: time.Second, Factor: 1e300,
		Max: 10 * time.Second}.WithMaxRetries(1_000_000)
	gentle := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: 1, Factor: 1.000001,
		Max: time.Second}.WithMaxRetries(1_000_000)
	flat := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: time.Second,
		Factor: 1}.WithMaxRetries(10)
	capped := carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: time.Second,
		Max: 8 * time.Second}.WithMaxRetries(5)
	huge := carillon.FailurePolicy{Kind: carillon.PolicyConstant,
		Interval: carillon.MaxSpan}.WithMaxRetries(1_000_000)
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
		{"constant", "@every 1m", 0, carillon.Constant(time.Second).WithMaxRetries(60), "1m 1m"},
		{"without end", "@daily", 0, carillon.Constant(time.Second), "end 24h"},
		{"only one run", "@daily", 1, carillon.Constant(time.Second), ""},
		{"only one run of a repeat", "R1/PT3S", 0, carillon.Constant(time.Second), ""},
		{"cron", "*/2 * * * * *", 0, carillon.FailurePolicy{}, "3s 2s"},
		{"cron with an uneven interval", "0,58 * * * * *", 0, carillon.FailurePolicy{}, "3s 2s"},
		{"cron of every 7 minutes, and 4 once an hour", "*/7 * * * *", 0,
			carillon.Constant(time.Minute).WithMaxRetries(5), "5m 4m"},
		{"cron of every other day, and the next once a month", "0 0 */2 * *", 0,
			carillon.Constant(time.Hour).WithMaxRetries(30), "30h 24h"},
		{"a set", "0 * * * *; 2 * * * *", 0, carillon.Constant(time.Minute).WithMaxRetries(2), "2m 2m"},
		{"a set with a rare time just before another", "0 * * * *; 58 11 1 6 *", 0,
			carillon.Constant(time.Minute).WithMaxRetries(3), "3m 2m"},
		{"a set of intervals, a little apart", "@every 1h; @every 61m", 0, carillon.Constant(time.Minute).WithMaxRetries(3),
			"3m 1m"},
		{"a set, far apart", "0 9 * * *; 0 12 * * *", 0, carillon.Constant(time.Minute).WithMaxRetries(3), ""},
		{"cron of minutes", "*/5 * * * *", 0, carillon.FailurePolicy{}, ""},
		{"months", "R/P1M", 0, carillon.Constant(time.Hour).WithMaxRetries(28 * 24), "672h 672h"},
		{"retries on a cron", "@every 1m", 0, carillon.OnSchedule("*/10 * * * * *").WithMaxRetries(6), "1m 1m"},
		{"few retries on a cron", "@every 1m", 0, carillon.OnSchedule("*/10 * * * * *").WithMaxRetries(5), ""},
		{"capped: 1+2+4+8+8", "@every 23s", 0, capped, "23s 23s"},
		{"capped, slower", "@every 23001ms", 0, capped, ""},
		{"no growth", "@every 10s", 0, flat, "10s 10s"},
		{"growth beyond numbers", "@every 1h", 0, steep, "2777h46m31s 1h"},
		{"hardly any growth", "@every 1ms", 0, gentle, "1.71828ms 1ms"},
		{"beyond what a duration holds", "@daily", 0, huge, "end 24h"},
		{"a schedule that is past", "0 0 0 1 1 * 1999", 0, carillon.Constant(time.Second), ""},
		{"a schedule that is wrong", "nonsense", 0, carillon.Constant(time.Second), ""},
	} {
		j := carillon.Job{Schedule: c.schedule, Repeats: c.repeats, FailurePolicy: c.policy}
		got := plan.RetryWarning(&j)
		if (got == "") != (c.says == "") {
			t.Errorf("%s: %q", c.what, got)
		}
		said := strings.FieldsFunc(got, func(r rune) bool { return r == ' ' || r == ',' || r == ';' })
		for word := range strings.FieldsSeq(c.says) {
			if !slices.Contains(said, word) {
				t.Errorf("%s: %q does not say %q", c.what, got, word)
			}
		}
	}
}

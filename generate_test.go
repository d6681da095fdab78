package carillon_test

import (
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
)

var (
	someSchedules = []string{"", "0 0 2 * * *", "*/5 * * * *", "30 1 29 2 *", "0 0 12 L * ? 2020-2199/4",
		"@daily", "@every 10s", "@every 1h/19m",
		"R4/PT3S", "R/P1M", "R20/2026-01-01T00:00:00Z/PT15M", "R/2026-01-31T12:00:00Z/P1M",
		"TZ=Asia/Tokyo 0 9 * * FRI-MON"}
	someZones = []string{"", "UTC", "Europe/London", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"}
	someDues  = []string{"", "0s", "90s", "PT1H", "P1M", "2020-02-29T12:00:00Z", "2026-11-21T11:30:00.5Z",
		"2099-12-31T23:59:59+01:00"}
	someTTLs = []string{"", "1h", "P400D", "2100-01-01T00:00:00Z"}
)

// anyJob draws a valid job.
func anyJob(t *rapid.T) carillon.Job {
	pick := func(label string, from []string) string { return rapid.SampledFrom(from).Draw(t, label) }
	span := func(label string, least, most time.Duration) time.Duration {
		if rapid.Bool().Draw(t, label+" given") {
			return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, label))
		}
		return 0
	}
	words := rapid.MapOfN(rapid.StringMatching(`[a-zü+/&? ]{1,12}`),
		rapid.StringMatching(`[a-zü+/&? ]{0,12}`), 0, 3)
	j := carillon.Job{
		Namespace: rapid.StringMatching(`[a-zA-Z0-9-]{0,63}`).Draw(t, "namespace"),
		Name: rapid.StringMatching(`[a-z0-9 é"\\%.]{0,8}[a-z0-9](/[a-z0-9 é"\\%.]{0,8}[a-z0-9]){0,3}`).Draw(t,
			"name"),
		Schedule: pick("schedule", someSchedules), TimeZone: pick("zone", someZones),
		Calendars: carillon.CalendarRules{
			DST:    rapid.SampledFrom([]carillon.DST{carillon.DSTSafe, carillon.DSTLiteral}).Draw(t, "dst"),
			Except: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Z0-9_-]{1,9}`), 0, 3, rapid.ID).Draw(t, "except"),
			Only:   rapid.SliceOfNDistinct(rapid.StringMatching(`[.][a-z]{1,9}`), 0, 2, rapid.ID).Draw(t, "only"),
		},
		Due: carillon.WhenText(pick("due", someDues)), TTL: carillon.WhenText(pick("ttl", someTTLs)),
		Jitter: span("jitter", 0, 3*time.Second),
		Data: carillon.Bytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "data"),
			pick("type", []string{"", "text/plain", "application/json"})),

		Metadata: words.Draw(t, "metadata"), Labels: words.Draw(t, "labels"),
		Target: anyTarget(t), FailurePolicy: anyPolicy(t),
		Timeout: span("timeout", carillon.MinTimeout, carillon.MaxTimeout),
		Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(t, "overlap")),
		Misfire: carillon.Misfire{Rule: carillon.MisfireRule(rapid.IntRange(0, 2).Draw(t, "misfire")),
			Limit:  rapid.IntRange(0, carillon.MaxCatchUp).Draw(t, "catch-up"),
			Window: span("window", 0, carillon.MaxSpan)},
		Priority: carillon.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),

		ConcurrencyKey: rapid.StringMatching(`[a-zé /:.]{0,9}`).Draw(t, "concurrency key"),
		DependsOn: rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z]{1,9}`), 0, 3, rapid.ID).Draw(t,
			"depends_on"),

		Paused: rapid.Bool().Draw(t, "paused"), Note: rapid.StringN(-1, 20, -1).Draw(t, "note"),
		History: carillon.History{Runs: rapid.IntRange(-1, carillon.MaxHistoryRuns).Draw(t, "runs"),
			Keep: span("keep", 0, carillon.MaxSpan)},
	}
	if j.Schedule != "" {
		j.Repeats = rapid.Uint64().Draw(t, "repeats")
	}
	if j.Target.Worker != nil {
		j.Lease = span("lease", carillon.MinLease, carillon.MaxLease)
	}
	if j.Schedule == "" { // these have no effect then
		j.Calendars, j.Overlap, j.Misfire = carillon.CalendarRules{}, 0, carillon.Misfire{}
		if !strings.HasPrefix(j.Due.String(), "P1M") && !strings.HasPrefix(j.TTL.String(), "P4") &&
			j.FailurePolicy.Schedule == "" {
			j.TimeZone = ""
		}
	}
	return j
}

func anyTarget(t *rapid.T) carillon.Target {
	if rapid.Bool().Draw(t, "worker") {
		return carillon.WorkerQueue(rapid.StringMatching(`[a-z.:/]{1,20}`).Draw(t, "queue"))
	}
	return carillon.Target{HTTP: &carillon.HTTPTarget{
		URL: rapid.StringMatching(`https?://[a-z0-9]{1,9}(\.[a-z]{2,5})?(:[1-9][0-9]{0,3})?(/[a-z%20]{0,9})?`).
			Filter(wellEscaped).Draw(t, "url"),
		Method: rapid.SampledFrom([]string{"", "POST", "PUT", "DELETE"}).Draw(t, "method"),
		Headers: rapid.MapOfN(rapid.StringMatching(`x-[a-z0-9]{1,9}`), rapid.StringMatching(`[ -~]{0,20}`), 0,
			3).Draw(t, "headers"),
	}}
}

func anyPolicy(t *rapid.T) carillon.FailurePolicy {
	p := rapid.SampledFrom([]carillon.FailurePolicy{{}, carillon.Drop(), carillon.Constant(time.Second),
		carillon.OnSchedule("*/2 * * * * *"),
		carillon.Exponential(time.Second), {Kind: carillon.PolicyExponential, Initial: 1, Factor: 1.5,
			Max: time.Hour, Jitter: time.Second}}).Draw(t, "policy")
	if p.Kind >= carillon.PolicyConstant && rapid.Bool().Draw(t, "limited") {
		p = p.WithMaxRetries(rapid.Uint32Range(0, carillon.MaxRetries).Draw(t, "max_retries"))
	}
	if p.Kind != carillon.PolicyDrop {
		p.OnExhausted = carillon.OnExhausted(rapid.IntRange(0, 2).Draw(t, "exhausted"))
	}
	return p
}

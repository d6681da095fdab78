package sim

import (
	"fmt"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// jobOf is a job in the product's words. The payload stands for its own hash. A job whose queue begins with
// http:// has that URL as its target.
func jobOf(namespace, name string, s *checker.Job) carillon.Job {
	j := carillon.Job{
		Namespace: namespace, Name: name, Schedule: s.Schedule, TimeZone: s.Zone, Repeats: s.Repeats,
		Jitter: s.Jitter,
		Data: carillon.Bytes([]byte(s.Payload),
			carillon.ContentTypeBinary), FailurePolicy: policyOf(s.Policy), Timeout: s.Timeout,
		Lease:          s.Lease,
		ConcurrencyKey: s.ConcurrencyKey, DependsOn: s.After, Paused: s.Paused,
		History: carillon.History{Runs: s.KeepRuns}, Overlap: word[carillon.Overlap](s.Overlap),
		Misfire: carillon.Misfire{Rule: word[carillon.MisfireRule](s.Misfire), Limit: s.CatchUpLimit,
			Window: s.CatchUpWindow},
		Priority: word[carillon.Priority](s.Priority),
	}
	if s.Literal {
		j.Calendars.DST = carillon.DSTLiteral
	}
	switch {
	case s.Relative:
		j.Due = carillon.In(s.DueIn)
	case !s.Due.IsZero():
		j.Due = carillon.At(s.Due)
	}
	switch {
	case s.TTL != 0:
		j.TTL = carillon.In(s.TTL)
	case !s.Expires.IsZero():
		j.TTL = carillon.At(s.Expires)
	}
	if strings.HasPrefix(s.Queue, "http://") {
		j.Target = carillon.HTTP(s.Queue)
	} else {
		j.Target = carillon.WorkerQueue(s.Queue)
	}
	return j
}

// word is the value of a word, the zero value for none. An unknown word is a plan that nobody drew.
func word[T interface {
	~uint8
	fmt.Stringer
}](s string) T {
	for v := range T(16) {
		if v.String() == s {
			return v
		}
	}
	return 0
}

func policyOf(p checker.Policy) carillon.FailurePolicy {
	out := carillon.FailurePolicy{
		Kind: word[carillon.PolicyKind](p.Kind), Interval: p.Interval, Schedule: p.Cron, Initial: p.Initial,
		Factor: p.Factor, Max: p.Max, Jitter: p.Jitter, OnExhausted: word[carillon.OnExhausted](p.OnExhausted),
	}
	if p.MaxRetries != nil {
		out = out.WithMaxRetries(uint32(*p.MaxRetries))
	}
	return out
}

// fieldNames are the product's names of the checker's fields, where they differ.
var fieldNames = map[string]string{
	"zone": "time_zone", "literal": "dst", "due": "due_time", "relative": "due_time", "due_in": "due_time",
	"expires": "ttl", "policy": "failure_policy", "payload": "data", "queue": "target", "keep_runs": "history",
}

// patchFields are the fields of a patch in the product's words.
func patchFields(fields []string) []string {
	var out []string
	for _, f := range fields {
		if name, ok := fieldNames[f]; ok {
			f = name
		}
		out = append(out, f)
	}
	return out
}

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
	if len(s.Off) > 0 {
		j.Calendars.Except = []string{calendar}
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

// pausers are the jobs that may pause themselves after failures, from some put or patch on, and whether they
// fail where no consumer sees it: attempts that find no HTTP endpoint.
func (p *Plan) pausers() map[carillon.Key]bool {
	jobs, called := map[carillon.Key]bool{}, map[carillon.Key]bool{}
	add := func(namespace, name string, spec *checker.Job) {
		if spec == nil {
			return
		}
		k := carillon.Key{Namespace: namespace, Name: name}
		called[k] = called[k] || strings.HasPrefix(spec.Queue, "http://")
		if spec.Policy.PauseAfter > 0 {
			jobs[k] = true
		}
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		add(o.Namespace, o.Job, o.Spec)
		for _, b := range o.Batch {
			add(o.Namespace, b.Job, b.Spec)
		}
	}
	for k := range jobs {
		jobs[k] = called[k]
	}
	return jobs
}

// mayPause writes down that the job of an attempt may be paused from now on: by the failure of this attempt,
// if that is the last of its run and there were enough before. Whether it fails may never be said.
func (w *world) mayPause(r *carillon.Run, consumer string) {
	if _, may := w.pausers[carillon.Key{Namespace: r.Namespace, Name: r.Job}]; may {
		w.rec.Begin(checker.Op{Kind: checker.Pause, Client: consumer, Namespace: r.Namespace, Job: r.Job})
	}
}

// mayPauseUnseen does so for a job that is put or patched, if its failures may be seen by nobody.
func (w *world) mayPauseUnseen(rec *checker.Op) {
	if w.pausers[carillon.Key{Namespace: rec.Namespace, Name: rec.Job}] {
		w.rec.Begin(checker.Op{Kind: checker.Pause, Client: rec.Client, Namespace: rec.Namespace, Job: rec.Job})
	}
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
		PauseAfter: p.PauseAfter,
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

package deliveries

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What comes to a sidecar of Dapr names its job and carries its data; it has no id of a run, no attempt and
// no token, and nobody answers a sidecar. So the ledger of sidecars is matched with the history by other
// rules:
//
//	invented  what comes is the data of a put that has been made
//	replaced  nothing comes of what an acknowledged put or delete has replaced
//	lost      an acknowledged job that nothing replaces has all of its runs, at its times
//	early     nothing comes before its time
//	nobody    a run that succeeded was answered so, between its time and its end
//	attempts  an attempt is used up only by a failure that a sidecar reported
//	twice     an attempt is answered once, unless something broke about then
//
// Jobs of a campaign end by themselves, and carry data that no other put has.

// Trigger is a run that came to a sidecar.
type Trigger struct {
	Job, Payload, Sidecar string
	At                    time.Time
	OK                    bool      // how it was answered
	Answered              time.Time // zero: it was not
	Ended                 time.Time // when its stream ended; zero: it did not
}

// Order is a call about a job: a put that overwrites, or a delete if it has no payload.
type Order struct {
	Job, Payload   string
	Every          time.Duration // between runs
	Runs           int
	Retries        int // most of a run
	Invoke, Return time.Time
	Acked          bool // otherwise nobody knows whether it was done
}

// Fault is a stretch in which something was broken. One that holds may let go later what was on its way.
type Fault struct {
	Kind     string
	From, To time.Time
	Holds    bool
}

// Recorded is a finished run in the history.
type Recorded struct {
	ID, Job, Life, Status string
	Scheduled, Finished   time.Time
	Attempt               int
}

// Triggers is all that was seen of a campaign.
type Triggers struct {
	Seen   []Trigger
	Orders []Order
	Faults []Fault
	Runs   []Recorded
	// Wire is how long a message and an answer may be under way, Lazy how old an answer may be that a kill
	// loses, Recovery how long after a fault something may still be done again.
	Wire, Lazy, Recovery time.Duration
}

// triggerJob is all that is known of one job.
type triggerJob struct {
	name   string
	orders []Order
	seen   []Trigger
	runs   []Recorded
}

// lastLife returns the life of the run that ended last. The run that was scheduled last may be of an older
// life: times of a put count from when a node saw it, and the job that it replaces runs until the owner has
// it.
func (j *triggerJob) lastLife() string {
	if len(j.runs) == 0 {
		return ""
	}
	return slices.MaxFunc(j.runs, func(x, y Recorded) int { return x.Finished.Compare(y.Finished) }).Life
}

// AuditTriggers matches what sidecars saw with what the system says.
func AuditTriggers(t Triggers) []Violation {
	a := triggerAudit{Triggers: t, jobs: map[string]*triggerJob{}}
	for _, o := range t.Orders {
		j := a.job(o.Job)
		j.orders = append(j.orders, o)
	}
	for _, s := range t.Seen {
		j := a.job(s.Job)
		j.seen = append(j.seen, s)
	}
	for _, r := range t.Runs {
		j := a.job(r.Job)
		j.runs = append(j.runs, r)
	}
	for _, j := range a.jobs {
		slices.SortStableFunc(j.orders, func(x, y Order) int { return x.Invoke.Compare(y.Invoke) })
		slices.SortStableFunc(j.seen, func(x, y Trigger) int { return x.At.Compare(y.At) })
		slices.SortStableFunc(j.runs, func(x, y Recorded) int { return x.Scheduled.Compare(y.Scheduled) })
		a.ordered(j)
		a.last(j)
	}
	slices.SortStableFunc(a.found, func(x, y Violation) int {
		return cmp.Or(strings.Compare(x.Rule, y.Rule), strings.Compare(x.Job, y.Job))
	})
	return a.found
}

// triggerAudit is one call of AuditTriggers.
type triggerAudit struct {
	Triggers
	jobs  map[string]*triggerJob
	found []Violation
}

func (a *triggerAudit) job(name string) *triggerJob {
	if a.jobs[name] == nil {
		a.jobs[name] = &triggerJob{name: name}
	}
	return a.jobs[name]
}

func (a *triggerAudit) addf(rule string, j *triggerJob, format string, args ...any) {
	a.found = append(a.found, Violation{rule, j.name, fmt.Sprintf(format, args...)})
}

// held reports whether something may have held up what came at an instant since another.
func (a *triggerAudit) held(from, to time.Time) bool {
	return slices.ContainsFunc(a.Faults, func(f Fault) bool {
		return f.Holds && !f.From.After(to) && !f.To.Add(a.Wire).Before(from)
	})
}

// broken reports whether something that was answered then may have been lost.
func (a *triggerAudit) broken(s Trigger) bool {
	if !s.Ended.IsZero() && s.Ended.Sub(s.Answered) < a.Wire {
		return true
	}
	return slices.ContainsFunc(a.Faults, func(f Fault) bool {
		return !f.From.Add(-a.Lazy).After(s.Answered) && !f.To.Add(a.Recovery).Before(s.At)
	})
}

// ordered: invented and replaced.
func (a *triggerAudit) ordered(j *triggerJob) {
	for _, s := range j.seen {
		i := slices.IndexFunc(j.orders, func(o Order) bool { return o.Payload == s.Payload && s.Payload != "" })
		if i < 0 || j.orders[i].Invoke.After(s.At) {
			a.addf("invented", j, "%q came to %s at %s, and nobody had put it", s.Payload, s.Sidecar, clock(s.At))
			continue
		}
		for _, o := range j.orders[i+1:] {
			if o.Acked && j.orders[i].Acked && o.Return.Add(a.Wire).Before(s.At) && !a.held(o.Return, s.At) {
				a.addf("replaced", j, "%q came to %s at %s, and had been replaced at %s", s.Payload, s.Sidecar,
					clock(s.At), clock(o.Return))
				break
			}
		}
	}
}

// last asks about the runs of what was put last, if that is certain.
func (a *triggerAudit) last(j *triggerJob) {
	if len(j.orders) == 0 || slices.ContainsFunc(j.orders, func(o Order) bool { return !o.Acked }) {
		return
	}
	put := j.orders[len(j.orders)-1]
	if put.Payload == "" {
		return
	}
	var runs []Recorded
	life := j.lastLife()
	for _, r := range j.runs {
		if r.Life == life && !r.Scheduled.Before(put.Invoke.Add(-a.Wire)) {
			runs = append(runs, r)
		}
	}
	if len(runs) != put.Runs {
		a.addf("lost", j, "it has %d runs in the history, and should have %d", len(runs), put.Runs)
		return
	}
	for i := 1; i < len(runs); i++ {
		if d := runs[i].Scheduled.Sub(runs[i-1].Scheduled); d != put.Every {
			a.addf("lost", j, "run %s is %v after the one before, not %v", runs[i].ID, d, put.Every)
		}
	}
	seen := slices.DeleteFunc(slices.Clone(j.seen), func(s Trigger) bool { return s.Payload != put.Payload })
	if len(seen) > 0 && seen[0].At.Before(runs[0].Scheduled) {
		a.addf("early", j, "%q came %v before its time", put.Payload, runs[0].Scheduled.Sub(seen[0].At))
	}
	for _, r := range runs {
		a.succeeded(j, r, seen)
	}
	a.used(j, put, runs, seen)
}

// succeeded: nobody.
func (a *triggerAudit) succeeded(j *triggerJob, r Recorded, seen []Trigger) {
	said := slices.ContainsFunc(seen, func(s Trigger) bool {
		return s.OK && !s.Answered.IsZero() && !s.At.Before(r.Scheduled) && !s.At.After(r.Finished.Add(a.Wire))
	})
	switch {
	case r.Status == "succeeded" && !said:
		a.addf("nobody", j, "run %s succeeded at %s, and nobody said so", r.ID, clock(r.Finished))
	case r.Status != "succeeded" && r.Status != "failed":
		a.addf("lost", j, "run %s is %s", r.ID, r.Status)
	}
}

// used: attempts and twice.
func (a *triggerAudit) used(j *triggerJob, put Order, runs []Recorded, seen []Trigger) {
	attempts, failures := 0, 0
	for _, r := range runs {
		attempts += r.Attempt
		failures += r.Attempt - 1
		if r.Status == "failed" {
			failures++
		}
		if r.Attempt > put.Retries+1 || r.Attempt < 1 || r.Status == "failed" && r.Attempt != put.Retries+1 {
			a.addf("attempts", j, "run %s is %s after %d attempts, and may have %d", r.ID, r.Status, r.Attempt,
				put.Retries+1)
		}
	}
	said, answered := 0, 0
	for _, s := range seen {
		if s.Answered.IsZero() {
			continue
		}
		if !s.OK {
			said++
		}
		if !a.broken(s) {
			answered++
		}
	}
	if failures > said {
		a.addf("attempts", j, "%d attempts failed, and sidecars said so of %d", failures, said)
	}
	if answered > attempts {
		a.addf("twice", j, "%d attempts are in the history, and %d were answered while nothing was broken", attempts,
			answered)
	}
}

package carillon

import (
	"cmp"
	"math"
	"time"

	"github.com/carillonhq/carillon/schedule"
)

// FailurePolicy decides what happens when an attempt fails. The zero value is the default: one-shots retry
// exponentially, 5 attempts in all, then are dead; recurring jobs retry 3 times 1 s apart, then the run is
// dropped.
type FailurePolicy struct {
	Kind        PolicyKind
	Interval    time.Duration // constant: between the end of an attempt and the next
	Schedule    string        // schedule: a cron; the next attempt is at its next time
	Initial     time.Duration // exponential: first delay; default 2 s
	Factor      float64       // exponential: growth per retry; default 2
	Max         time.Duration // exponential: longest delay; default 1 h
	Jitter      time.Duration // exponential: up to this much is added; default 0
	MaxRetries  *uint32       // attempts - 1; nil = 4 for exponential, no limit for constant and schedule
	OnExhausted OnExhausted
	// PauseAfter pauses the job, with a note that says why, when that many of its runs in a row have ended
	// failed or dead. A success sets the count back, and so does resuming the job. 0: never.
	PauseAfter uint32
}

// PolicyKind is the form of a failure policy.
type PolicyKind uint8

// The forms.
const (
	PolicyDefault     PolicyKind = iota
	PolicyDrop                   // one attempt
	PolicyConstant               // Interval
	PolicySchedule               // Schedule
	PolicyExponential            // Initial, Factor, Max, Jitter
)

// OnExhausted decides what becomes of a run that has no attempts left.
type OnExhausted uint8

// What becomes of an exhausted run. It is never silent: a dropped run stays in the history as failed.
const (
	ExhaustedDefault OnExhausted = iota // dead for one-shots, drop for recurring jobs and for the policy drop
	ExhaustedDead                       // kept, with payload and errors, until redriven or expired
	ExhaustedDrop
)

// Defaults of the failure policies.
const (
	DefaultInitial            = 2 * time.Second
	DefaultFactor             = 2.0
	DefaultMaxDelay           = time.Hour
	DefaultExponentialRetries = 4
	DefaultRecurringInterval  = time.Second
	DefaultRecurringRetries   = 3
)

// Drop returns a policy without retries.
func Drop() FailurePolicy { return FailurePolicy{Kind: PolicyDrop} }

// Constant returns a policy that retries every interval for ever; [FailurePolicy.WithMaxRetries] limits it.
func Constant(interval time.Duration) FailurePolicy {
	return FailurePolicy{Kind: PolicyConstant, Interval: interval}
}

// OnSchedule returns a policy that retries at the times of a cron for ever; [FailurePolicy.WithMaxRetries]
// limits it.
func OnSchedule(cron string) FailurePolicy {
	return FailurePolicy{Kind: PolicySchedule, Schedule: cron}
}

// Exponential returns a policy that retries after initial, then twice that, and so on up to an hour, 4 times.
func Exponential(initial time.Duration) FailurePolicy {
	return FailurePolicy{Kind: PolicyExponential, Initial: initial}
}

// WithMaxRetries returns p with at most n retries, so n+1 attempts.
func (p FailurePolicy) WithMaxRetries(n uint32) FailurePolicy {
	p.MaxRetries = &n
	return p
}

// Resolve returns p with every default filled in, for a one-shot or a recurring job.
func (p FailurePolicy) Resolve(recurring bool) FailurePolicy {
	if p.Kind == PolicyDefault {
		given := p
		if recurring {
			p = Constant(DefaultRecurringInterval).WithMaxRetries(DefaultRecurringRetries)
		} else {
			p = Exponential(DefaultInitial)
		}
		p = p.withCommon(&given)
	}
	if p.Kind == PolicyExponential {
		p = p.resolveExponential()
	}
	if p.Kind == PolicyDrop || (p.OnExhausted == ExhaustedDefault && recurring) {
		p.OnExhausted = ExhaustedDrop
	}
	if p.OnExhausted == ExhaustedDefault {
		p.OnExhausted = ExhaustedDead
	}
	return p
}

// withCommon returns p with the fields of from that policies of every form have.
func (p FailurePolicy) withCommon(from *FailurePolicy) FailurePolicy {
	p.OnExhausted, p.PauseAfter = from.OnExhausted, from.PauseAfter
	return p
}

func (p FailurePolicy) resolveExponential() FailurePolicy {
	p.Initial = cmp.Or(p.Initial, DefaultInitial)
	p.Factor = cmp.Or(p.Factor, DefaultFactor)
	p.Max = cmp.Or(p.Max, DefaultMaxDelay)
	if p.MaxRetries == nil {
		p = p.WithMaxRetries(DefaultExponentialRetries)
	}
	return p
}

func (j *Job) checkFailurePolicy(lim *Bounds) error {
	p := &j.FailurePolicy
	err := cmp.Or(policyWords.check(uint8(p.Kind)), p.checkForeign(), p.checkOwn(j.Location(), lim))
	if err != nil {
		return err
	}
	if p.MaxRetries != nil && *p.MaxRetries > MaxRetries {
		return invalid(p.field("max_retries"),
			"%d is more than %d; leave it out for no limit", *p.MaxRetries, MaxRetries)
	}
	if err := exhaustedWords.check(uint8(p.OnExhausted)); err != nil {
		return err
	}
	if p.PauseAfter > MaxPauseAfter {
		return invalid("failure_policy.pause_after", "%d is more than %d; leave it out to never pause the job",
			p.PauseAfter, MaxPauseAfter)
	}
	if p.Kind == PolicyDrop && p.OnExhausted == ExhaustedDead {
		return invalid(exhaustedWords.field, "the policy drop keeps no dead runs; for one attempt and then "+
			"dead use constant with max_retries 0")
	}
	return nil
}

// field returns the API's path of a field of the policy's form.
func (p *FailurePolicy) field(name string) string {
	if p.Kind == PolicyDefault {
		return policyWords.field
	}
	return policyWords.field + "." + p.Kind.String() + "." + name
}

// checkForeign refuses fields of another form than the policy's.
func (p *FailurePolicy) checkForeign() error {
	for _, f := range [...]struct {
		kind PolicyKind
		name string
		set  bool
	}{
		{PolicyConstant, "interval", p.Interval != 0},
		{PolicySchedule, "cron", p.Schedule != ""},
		{PolicyExponential, "initial", p.Initial != 0},
		{PolicyExponential, "factor", p.Factor != 0},
		{PolicyExponential, "max", p.Max != 0},
		{PolicyExponential, "jitter", p.Jitter != 0},
	} {
		if f.set && f.kind != p.Kind {
			other := FailurePolicy{Kind: f.kind}
			return invalid(other.field(f.name), "it belongs to the policy %v, and this one is %v", f.kind, p.Kind)
		}
	}
	if p.MaxRetries != nil && (p.Kind == PolicyDrop || p.Kind == PolicyDefault) {
		return invalid(p.field("max_retries"),
			"the policy %v has none; use constant, schedule or exponential", p.Kind)
	}
	return nil
}

// checkOwn checks the fields of the policy's form.
func (p *FailurePolicy) checkOwn(loc *time.Location, lim *Bounds) error {
	switch p.Kind {
	case PolicyConstant:
		if p.Interval == 0 && p.MaxRetries == nil {
			return invalid(p.field("interval"), "retries without a pause need an end; give an interval or max_retries")
		}
		return checkSpan(p.field("interval"), p.Interval, 0, MaxSpan)
	case PolicySchedule:
		return p.checkCron(loc, lim)
	case PolicyExponential:
		return p.checkExponential()
	default:
		return nil
	}
}

func (p *FailurePolicy) checkCron(loc *time.Location, lim *Bounds) error {
	field := p.field("cron")
	if len(p.Schedule) > lim.Schedule {
		return tooLarge(field, len(p.Schedule), lim.Schedule)
	}
	s, err := schedule.Parse(p.Schedule, schedule.Options{Location: loc})
	if err != nil {
		return scheduleError(field, err)
	}
	if _, started := s.Start(); started || s.Anchored() {
		return invalid(field, "%q is not a cron; use constant to retry after a fixed time", clip(p.Schedule))
	}
	return nil
}

func (p *FailurePolicy) checkExponential() error {
	for _, f := range [...]struct {
		name string
		d    time.Duration
	}{{"initial", p.Initial}, {"max", p.Max}, {"jitter", p.Jitter}} {
		if err := checkSpan(p.field(f.name), f.d, 0, MaxSpan); err != nil {
			return err
		}
	}
	if p.Factor != 0 && !(p.Factor >= 1 && p.Factor <= math.MaxFloat64) {
		return invalid(p.field("factor"), "%v is not a number from 1 up", p.Factor)
	}
	if r := p.resolveExponential(); r.Max < r.Initial {
		return invalid(p.field("max"), "%s is shorter than the first delay, initial, %s", schedule.Brief(r.Max),
			schedule.Brief(r.Initial))
	}
	return nil
}

package carillon

import "time"

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
		onExhausted := p.OnExhausted
		if recurring {
			p = Constant(DefaultRecurringInterval).WithMaxRetries(DefaultRecurringRetries)
		} else {
			p = Exponential(DefaultInitial)
		}
		p.OnExhausted = onExhausted
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

func (p FailurePolicy) resolveExponential() FailurePolicy {
	if p.Initial == 0 {
		p.Initial = DefaultInitial
	}
	if p.Factor == 0 {
		p.Factor = DefaultFactor
	}
	if p.Max == 0 {
		p.Max = DefaultMaxDelay
	}
	if p.MaxRetries == nil {
		p = p.WithMaxRetries(DefaultExponentialRetries)
	}
	return p
}

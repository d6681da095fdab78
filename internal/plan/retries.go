package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// RetryWarning warns of a recurring job whose retries can take as long as its interval in the worst case, so
// that they delay its next run; "" means no warning. The job is valid.
func RetryWarning(j *carillon.Job) string {
	if why := retriesTooLong(j); why != "" {
		return "failure_policy: " + why
	}
	return ""
}

// CheckRetryWindow refuses what [RetryWarning] warns of: in a strict namespace it is an error.
func CheckRetryWindow(j *carillon.Job) error {
	if why := retriesTooLong(j); why != "" {
		return carillon.Errorf(carillon.InvalidArgument, "failure_policy", "%s (namespace %q is strict)",
			why, j.Namespace)
	}
	return nil
}

// retriesTooLong returns what is wrong; "" if nothing is.
func retriesTooLong(j *carillon.Job) string {
	if !j.Recurring() {
		return ""
	}
	window := retryWindow(j.FailurePolicy.Resolve(true), j.Location())
	if window == 0 {
		return ""
	}
	sched, err := j.ParseSchedule()
	if err != nil || EffectiveRepeats(j, sched) == 1 {
		return ""
	}
	interval, ok := shortestInterval(sched)
	switch {
	case !ok || window < interval:
		return ""
	case window == endless:
		return fmt.Sprintf("a run that keeps failing is retried without end, beyond the schedule's interval of "+
			"%s; limit max_retries", schedule.Brief(interval))
	}
	return fmt.Sprintf("the retries of a run can take %s, which is not below the schedule's interval of %s; "+
		"lower max_retries or the delays", schedule.Brief(window), schedule.Brief(interval))
}

// endless is the window of a policy without a limit, and of one beyond what a duration can hold.
const endless = time.Duration(math.MaxInt64)

// retryWindow returns how long the delays between a run's attempts can be in all: Σ(initial·factor^k +
// jitter) for each retry, k from 0. Three retries from 200 ms on, doubled, with a jitter of 500 ms: 200 + 400
// + 800 + 3·500 = 2,900 ms. p is resolved. A cron's delays are known if they are constant; otherwise they are
// assumed to be as short as possible.
func retryWindow(p carillon.FailurePolicy, loc *time.Location) time.Duration {
	switch {
	case p.Kind == carillon.PolicyDrop:
		return 0
	case p.MaxRetries == nil:
		return endless
	}
	n := float64(*p.MaxRetries)
	switch p.Kind {
	case carillon.PolicyConstant:
		return toDuration(n * float64(p.Interval))
	case carillon.PolicySchedule:
		s, err := schedule.Parse(p.Schedule, schedule.Options{Location: loc})
		if err != nil {
			return 0
		}
		interval, _ := shortestInterval(s)
		return toDuration(n * float64(interval))
	default:
		return toDuration(sumOfDelays(p, n) + n*float64(p.Jitter))
	}
}

// sumOfDelays returns Σ min(initial·factor^k, max) for k < n, in closed form: n may be a million.
func sumOfDelays(p carillon.FailurePolicy, n float64) float64 {
	initial, most, growth := float64(p.Initial), float64(p.Max), math.Log(p.Factor)
	if growth == 0 {
		return n * initial
	}
	growing := min(n, math.Ceil(math.Log(most/initial)/growth)) // how many delays are below max
	return initial*(math.Expm1(growing*growth)/(p.Factor-1)) + (n-growing)*most
}

func toDuration(ns float64) time.Duration {
	if ns >= float64(endless) {
		return endless
	}
	return time.Duration(math.Round(ns))
}

// samples is how many intervals of a schedule are examined to find a short one: enough for any */n to wrap
// around, including days of the month.
const samples = 16

// samplesBeside is how many times of each member of a set are examined for how far the set's times before and
// after them are: a rare one may come close to any other.
const samplesBeside = 4

// shortestInterval returns the constant interval of a schedule, or the shortest of its first ones since 2000;
// ok is false if it fires less than twice.
func shortestInterval(s *schedule.Schedule) (interval time.Duration, ok bool) {
	if s.Period() > 0 {
		return s.Period(), true
	}
	interval = endless
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	shorten := func(from, to time.Time, both bool) {
		if both {
			interval, ok = min(interval, to.Sub(from)), true
		}
	}
	last, more := s.Next(start, start)
	for i := 0; i < samples && more; i++ {
		var next time.Time
		next, more = s.Next(last, start)
		shorten(last, next, more)
		last = next
	}
	members := s.Members()
	for i := 0; i < len(members) && len(members) > 1; i++ {
		t, more := members[i].Next(start, start)
		for n := 0; n < samplesBeside && more; n++ {
			before, is := s.Last(t.Add(-1), start)
			shorten(before, t, is)
			after, is := s.Next(t, start)
			shorten(t, after, is)
			t, more = members[i].Next(t, start)
		}
	}
	return interval, ok
}

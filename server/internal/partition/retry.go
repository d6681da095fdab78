package partition

import (
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/plan"
	"github.com/carillonhq/carillon/schedule"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// failure describes how an attempt failed.
type failure struct {
	message   string
	permanent bool             // must not be retried
	lost      bool             // its consumer is gone: retried at once
	after     time.Duration    // the earliest next attempt, counted from now
	report    *delivery.Report // nil if nobody reported it
}

// fail ends the attempt in force: by its consumer's report, because the consumer is gone, or because its
// lease or timeout is over. The run waits for its next attempt, or is exhausted.
func (rs *runs) fail(e *entry, now int64, f failure) {
	rs.attempts.endTrace(e, now, delivery.AttemptFailed, f.message, f.report)
	rs.attempts.end(e, f.report != nil)
	r := &e.state.Run
	r.Errors = appendError(r.Errors, carillon.AttemptError{Attempt: r.Attempt, At: toTime(now),
		Message: f.message})
	e.count(carillon.Counters{Failed: 1})
	j := e.job()
	policy := j.FailurePolicy.Resolve(j.Recurring())
	due, again := rs.nextAttempt(e, policy, now, f)
	if o := e.owner(); again && o != nil && o.expired(due) {
		again = false
	}
	if !again {
		rs.finish(e, now, ending{status: exhausted(policy), report: f.report})
		return
	}
	r.Due = due
	if l := rs.out.events; l.on(now, carillon.EventRunRetrying) {
		l.tellRun(now, &store.RunRecord{Key: e.ref.Key, ID: e.state.Identity(rs.cfg.Partition), Attempt: r.Attempt,
			Errors: r.Errors}, e.contentGeneration(), due)
	}
	rs.due.touch(e)
	rs.agenda.rearm(e)
}

// exhausted returns the status of a run that has no attempts left.
func exhausted(p carillon.FailurePolicy) carillon.RunStatus {
	if p.OnExhausted == carillon.ExhaustedDead {
		return carillon.RunDead
	}
	return carillon.RunFailed
}

// nextAttempt returns when the run is tried again after an attempt that ended at now; again is false if the
// run is exhausted. Retries count from the start again once a worker has rescheduled the run, or it
// was redriven. Those before a job of Dapr's came here count, too.
func (rs *runs) nextAttempt(e *entry, p carillon.FailurePolicy, now int64,
	f failure) (due int64, again bool) {
	r := &e.state.Run
	attempts := r.Attempt - r.Uncounted + plan.AttemptsBefore(e.job(), toTime(r.Scheduled))
	if f.permanent || p.Kind == carillon.PolicyDrop ||
		(p.MaxRetries != nil && uint64(attempts) > uint64(*p.MaxRetries)) {
		return 0, false
	}
	switch {
	case f.lost:
		due = now
	case e.traits().virtualRetry && p.Kind == carillon.PolicyConstant:
		return r.Due + int64(p.Interval), true // possibly in the past: the retry after it counts from there
	case p.Kind == carillon.PolicySchedule:
		s, err := schedule.Parse(p.Schedule, schedule.Options{Location: e.job().Location()})
		if err != nil {
			// It was valid when it was put; a time zone that was removed must end the retries, not the node.
			return 0, false
		}
		t, ok := s.Next(toTime(now), toTime(r.Scheduled))
		if !ok {
			return 0, false
		}
		due = t.UnixNano()
	default:
		due = now + int64(delay(p, attempts, rs.jitterSeed(e)))
	}
	return max(due, now+int64(f.after)), true
}

// delay returns how long a constant or exponential policy waits between the end of the attempt (from 1) and
// the next one.
func delay(p carillon.FailurePolicy, attempt int, seed uint64) time.Duration {
	if p.Kind != carillon.PolicyExponential {
		return p.Interval
	}
	d := float64(p.Initial) * math.Pow(p.Factor, float64(attempt-1))
	if !(d < float64(p.Max)) { // also when it is infinite
		d = float64(p.Max)
	}
	wait := time.Duration(d)
	if p.Jitter > 0 {
		wait += time.Duration(seed % uint64(p.Jitter+1))
	}
	return wait
}

// jitterSeed returns the same seed for the same attempt of the same run on any node.
func (rs *runs) jitterSeed(e *entry) uint64 {
	h := fnv.New64a()
	b := e.state.Identity(rs.cfg.Partition).AppendBinary(nil)
	h.Write(append(b, byte(e.state.Run.Attempt), byte(e.state.Run.Attempt>>8)))
	return h.Sum64()
}

// ending describes how a run ended.
type ending struct {
	status carillon.RunStatus
	reason string
	report *delivery.Report
}

// appendError appends to the newest MaxRunErrors errors. It does not change the old slice, which a batch may
// hold.
func appendError(errs []carillon.AttemptError, e carillon.AttemptError) []carillon.AttemptError {
	e.Message = clipped(e.Message, carillon.MaxErrorBytes)
	if len(errs) >= carillon.MaxRunErrors {
		errs = errs[len(errs)-carillon.MaxRunErrors+1:]
	}
	return append(slices.Clip(errs), e)
}

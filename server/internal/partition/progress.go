package partition

import (
	"math"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
)

// progress records a progress report of the attempt in force and extends its lease like a heartbeat. It is
// written when the state is written anyway, so the answer waits for no batch.
func (a *Attempts) progress(e *entry, now int64, p carillon.Progress) Verdict {
	r := &e.state.Run
	r.Percent, r.Message, r.ReportedAt = percent(p.Percent), clipped(p.Message, carillon.MaxProgressMessage), now
	if e.unacknowledged() { // its consumer has proved that the broker has it
		e.state.Run.Kept, e.attempt.lease = false, e.state.Run.Deadline
		a.keep(e)
	}
	a.extend(e, now)
	a.out.begin()
	return Accepted
}

// percent clamps p to 0…100; NaN is 0.
func percent(p float64) float64 {
	if math.IsNaN(p) {
		return 0
	}
	return min(max(p, 0), 100)
}

// clipped returns s without what is not UTF-8, cut between two characters if it is longer than most bytes.
func clipped(s string, most int) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// notRescheduled begins the error of an attempt that asked for another time and was refused.
const notRescheduled = "reschedule: "

// reschedule ends the attempt in force without a failure. The same run is attempted again at the time asked
// for, and its failure policy counts attempts from there. The report's message, if it has one, is kept until
// then: it says why the run was put off. Who was put off has not chosen the time, so one after the end of the
// job's life is that end.
func (rs *runs) reschedule(e *entry, now int64, r *delivery.Report) {
	owner, run := e.owner(), &e.state.Run
	at, why := r.At.UnixNano(), ""
	if r.Message != "" {
		why = ": " + r.Message
		if owner.state.Expires != 0 {
			at = min(at, owner.state.Expires)
		}
	}
	switch {
	case r.At.IsZero() || !carillon.Storable(r.At):
		rs.fail(e, now, failure{report: r, message: notRescheduled +
			"at: give an instant from " + text(carillon.EarliestTime) + " to " + text(carillon.LatestTime)})
		return
	case owner.state.Expires != 0 && max(now, at) > owner.state.Expires:
		rs.fail(e, now, failure{report: r, permanent: true, message: notRescheduled +
			"at: " + text(r.At) + " is after the end of the job's life, " + text(toTime(owner.state.Expires)) + why})
		return
	}
	rs.attempts.endTrace(e, now, delivery.AttemptRescheduled, "", r)
	rs.attempts.end(e, true)
	run.Due, run.Uncounted = max(now, at), run.Attempt
	if r.Message != "" {
		run.Percent, run.Message, run.ReportedAt = 0, clipped(r.Message, carillon.MaxProgressMessage), 0
	}
	rs.due.touch(e)
	rs.agenda.rearm(e)
}

// text formats t for people, in UTC.
func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// retold reports whether a report repeats the one that ended an attempt without success. rescheduled says
// whether that was a reschedule; errs are the run's errors until then.
func retold(r *delivery.Report, rescheduled bool, errs []carillon.AttemptError) bool {
	refused := len(errs) > 0 && strings.HasPrefix(errs[len(errs)-1].Message, notRescheduled)
	switch {
	case r.Async || r.Outcome == carillon.OutcomeSuccess || r.Outcome == carillon.OutcomeProgress:
		return false
	case r.Outcome == carillon.OutcomeReschedule:
		return rescheduled || refused
	}
	return !rescheduled && !refused
}

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

// Suspicions asks a history the few questions that matter most, as directly as can be, and returns what is
// wrong. It shares nothing with the checker but the history: each stands in for the other's mistakes.
func Suspicions(h *checker.History) []string {
	s := suspect{h: h, attempts: map[string][]checker.Attempt{}, results: map[string][]checker.Result{},
		ops: map[string][]checker.Op{}, ended: map[string]checker.FinalRun{}, seen: map[string]bool{}}
	for _, a := range h.Attempts {
		s.attempts[a.RunID] = append(s.attempts[a.RunID], a)
		s.seen[a.Job] = true
	}
	for _, r := range h.Results {
		s.results[r.RunID] = append(s.results[r.RunID], r)
	}
	for _, o := range h.Ops {
		s.ops[o.Job] = append(s.ops[o.Job], o)
	}
	for _, r := range h.Final.Runs {
		s.ended[r.RunID] = r
		s.seen[r.Job] = true
	}
	for _, as := range s.attempts {
		slices.SortStableFunc(as, func(a, b checker.Attempt) int { return a.At.Compare(b.At) })
		s.attemptsOf(as)
	}
	for id, rs := range s.results {
		s.resultsOf(id, rs)
	}
	s.acknowledged()
	for _, left := range h.Final.Left {
		s.addf("left behind: %s", left)
	}
	slices.Sort(s.found)
	return s.found
}

type suspect struct {
	h        *checker.History
	attempts map[string][]checker.Attempt // by run, in order of time
	results  map[string][]checker.Result  // by run
	ops      map[string][]checker.Op      // by job
	ended    map[string]checker.FinalRun  // by run
	seen     map[string]bool              // jobs of which something ran
	found    []string
}

func (s *suspect) addf(format string, args ...any) {
	s.found = append(s.found, fmt.Sprintf(format, args...))
}

// attemptsOf looks at the attempts of one run: none early, none without a cause.
func (s *suspect) attemptsOf(as []checker.Attempt) {
	for i, a := range as {
		if early := a.Scheduled.Sub(a.At); early > 0 {
			s.addf("early: attempt %d of %s (%s) came %v before its time", a.Number, a.RunID, a.Job, early)
		}
		if i > 0 && !s.justified(as[i-1], a) {
			s.addf("again: attempt %d of %s (%s) came %v after attempt %d, and nothing was wrong",
				a.Number, a.RunID, a.Job, a.At.Sub(as[i-1].At), as[i-1].Number)
		}
	}
}

// justified reports whether there is a cause for an attempt after another: a fault, a failure, a lease or a
// timeout that passed, or a change of the job.
func (s *suspect) justified(before, a checker.Attempt) bool {
	if a.At.Sub(before.At) >= min(workerLease, httpTimeout) {
		return true
	}
	for _, f := range s.h.Faults {
		general := len(f.Targets) == 0 || slices.Contains(f.Targets, before.Worker)
		if general && f.From.Before(a.At) && f.To.After(before.At.Add(-time.Second)) {
			return true
		}
	}
	for _, r := range s.results[a.RunID] {
		if r.Token == before.Token && (r.Kind == checker.Failure || r.Kind == checker.LostWorker) &&
			r.Sent.Before(a.At) {
			return true
		}
	}
	for _, o := range s.ops[a.Job] {
		change := o.Spec != nil && o.Outcome != checker.Fail
		if change && o.Invoke.Before(a.At) &&
			(o.Outcome == checker.Info || o.Return.After(before.At.Add(-time.Second))) {
			return true
		}
	}
	return false
}

// resultsOf looks at what became of the results of one run: an acknowledged success is in the history at the
// end, it is the only one, nothing runs after it, and nothing made up is ever acknowledged.
func (s *suspect) resultsOf(id string, rs []checker.Result) {
	var winner string
	for _, r := range rs {
		if r.Verdict != checker.Acked {
			continue
		}
		if r.Kind == checker.Fabricated {
			s.addf("forged: a made-up token of %s was acknowledged", id)
		}
		if r.Kind != checker.Success {
			continue
		}
		if winner != "" && winner != r.Token {
			s.addf("twice: two attempts of %s have succeeded", id)
		}
		winner = r.Token
		for _, a := range s.attempts[id] {
			if a.At.After(r.Told) && !s.heldUp(a, r.Told) && !crossed(a, r) {
				s.addf("done is done: attempt %d of %s (%s) came %v after its success was acknowledged",
					a.Number, id, a.Job, a.At.Sub(r.Told))
			}
		}
		if got := s.ended[id]; got.Status != "succeeded" {
			s.addf("lost: the success of %s was acknowledged, and the history has it as %q", id, got.Status)
		}
	}
}

// heldUp reports whether an attempt that came now may have been on its way since before an instant: a node or
// a link kept it.
func (s *suspect) heldUp(a checker.Attempt, since time.Time) bool {
	return slices.ContainsFunc(s.h.Faults, func(f checker.Fault) bool {
		return f.Holds && f.From.Before(since) && f.To.After(a.At.Add(-ClusterConstants.Dispatch)) &&
			!a.Started.After(since)
	})
}

// crossed reports whether an attempt was on its way when the acknowledgement of a result of the same attempt
// was: what is in doubt is handed out again, and whoever had it may answer at that moment.
func crossed(a checker.Attempt, r checker.Result) bool {
	return a.Token == r.Token && !a.Started.IsZero() && a.Started.Before(r.Told) &&
		a.At.Sub(r.Told) <= ClusterConstants.Dispatch
}

// acknowledged looks for what was promised: a new one-shot that nobody has touched since, and each trigger.
func (s *suspect) acknowledged() {
	for job, ops := range s.ops {
		alone := !strings.HasPrefix(job, "recurring/") && !strings.HasPrefix(job, "again/")
		if alone && len(ops) == 1 && ops[0].Spec != nil && ops[0].Outcome == checker.OK && !s.seen[job] {
			s.addf("lost: the put of %s was acknowledged, and it never ran", job)
		}
		if alone && len(ops) == 1 && ops[0].Outcome == checker.Fail && s.seen[job] {
			s.addf("ghost: the put of %s was refused, and it ran", job)
		}
		for _, o := range ops {
			if o.Kind != checker.Trigger || o.Outcome != checker.OK {
				continue
			}
			if _, ended := s.ended[o.Answer.RunID]; !ended && len(s.attempts[o.Answer.RunID]) == 0 {
				s.addf("lost: %s was triggered, and nothing is known of run %s", job, o.Answer.RunID)
			}
		}
	}
}

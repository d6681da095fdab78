package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
)

// Verdict is the outcome of a report or a heartbeat.
type Verdict uint8

// The verdicts.
const (
	// Accepted: it counts, once the batch that [Machine.After] names is durable.
	Accepted Verdict = iota
	// Stale: the token is not in force; nothing was changed.
	Stale
	// Missing: the run is not in memory. Read it and ask again, or look into the history with [Settled].
	Missing
)

// again answers a report of an attempt that an earlier report has ended already. If it repeats that report,
// which was a failure or a reschedule, it is accepted again. Anything else is stale. So is a permanent
// failure: the report that ended the attempt was not permanent, or the run would have ended.
func (a *Attempts) again(e *entry, r *delivery.Report) Verdict {
	run := &e.state.Run
	if r.Permanent || !retold(r, run.Uncounted == run.Attempt, run.Errors) {
		return Stale
	}
	a.out.await(e.seq)
	return Accepted
}

func messageOf(r *delivery.Report) string {
	if r.Message == "" {
		return "failed without a message"
	}
	return r.Message
}

// names reports whether the token is that of e's newest attempt.
func (e *entry) names(tok message.Token) bool {
	r := &e.state.Run
	return !r.Grant.Term.IsZero() && tok.Grant == r.Grant && tok.Attempt == r.Attempt
}

// Settled answers a report of a run that has finished, from its record in the history. A repeat of the result
// that ended the run is accepted; anything else is stale.
func Settled(tok message.Token, r *delivery.Report, ended store.RunRecord, found bool) Verdict {
	if !found || r.Async || ended.Attempt != tok.Attempt || ended.Grant != tok.Grant {
		return Stale
	}
	same := false
	switch ended.Status {
	case carillon.RunSucceeded:
		same = r.Outcome == carillon.OutcomeSuccess
	case carillon.RunFailed, carillon.RunDead:
		same = retold(r, false, ended.Errors)
	}
	if !same {
		return Stale
	}
	return Accepted
}

// Heartbeat extends the lease of an attempt, in memory. The lease is written only when the stored one has no
// more than one heartbeat interval left.
func (a *Attempts) Heartbeat(now int64, tok message.Token) Verdict {
	a.out.begin()
	e := a.records.live[tok.Run]
	switch {
	case e == nil:
		return Missing
	case e.doubtful() && a.records.specMissing(e):
		return Missing
	}
	a.acknowledge(e, tok, now)
	switch {
	case !e.names(tok) || e.place != running:
		return Stale
	case e.attempt.renewal == 0 && a.records.specMissing(e):
		return Missing
	}
	a.extend(e, now)
	return Accepted
}

// Lost ends an attempt whose consumer is known to be gone. The run is retried at once.
func (m *Machine) Lost(now int64, tok message.Token, why string) Verdict {
	m.Begin()
	e := m.Records.live[tok.Run]
	if e == nil || m.Records.specMissing(e) {
		return Missing
	}
	m.Attempts.acknowledge(e, tok, now)
	if !e.names(tok) || e.place != running {
		return Stale
	}
	m.Attempts.stopDuplicates(e)
	m.runs.fail(e, now, failure{message: why, lost: true})
	return Accepted
}

// Undelivered withdraws an attempt that was never sent, or whose stream has ended, for consumers whose
// attempts end with their stream. The attempt does not count, and the run is due at once.
func (a *Attempts) Undelivered(now int64, tok message.Token) {
	a.out.begin()
	e := a.named(tok)
	if e == nil {
		return
	}
	written := e.attemptWritten()
	if e.traits().endsWithStream && !e.state.Run.Kept {
		written = false // any later owner that finds it in the store withdraws it as well: see reclaim
	}
	if e.traits().endsWithStream && e.attempt.pending == 0 {
		a.withdrawSent(e)
	} else {
		a.withdraw(e)
	}
	// With its job in memory, or the job's counters would disagree with what is written of its run.
	if written && (e.ref.Seq == 0 || e.parent != nil) {
		a.due.touch(e)
	}
	a.due.enqueue(e, now)
}

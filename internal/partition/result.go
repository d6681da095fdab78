package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/identity"
	"github.com/carillonhq/carillon/store"
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

// Report applies a consumer's report to the attempt that the token names.
func (m *Machine) Report(now int64, tok Token, r *Report) Verdict {
	m.Begin()
	e := m.live[tok.Run]
	switch {
	case e == nil:
		return Missing
	case m.specMissing(e) || (r.PauseJob && m.specMissing(e.owner())):
		return Missing
	}
	m.acknowledge(e, tok, now)
	switch {
	case !m.names(e, tok):
		return Stale
	case e.place != running:
		return m.again(e, r)
	}
	switch {
	case r.Outcome == carillon.OutcomeProgress:
		return m.progress(e, now, r.Progress)
	case r.Async:
		// After a 202 the HTTP consumer no longer watches the timeout, so the attempt ends at it exactly,
		// without httpGrace.
		e.state.Run.Deadline = min(e.state.Run.Deadline, e.granted+int64(m.jobOf(e).TimeoutOrDefault()))
		e.lease = e.state.Run.Deadline
		m.keepGrant(e)
		m.rearm(e)
	case r.Outcome == carillon.OutcomeSuccess:
		m.stopOthers(e)
		m.leave(e, true)
		m.finish(e, now, ending{status: carillon.RunSucceeded, report: r})
	case r.Outcome == carillon.OutcomeReschedule:
		m.stopOthers(e)
		m.reschedule(e, now, r)
	default:
		m.stopOthers(e)
		owner := e.owner()
		m.fail(e, now, failure{message: message(r), permanent: r.Permanent, after: r.RetryAfter, report: r})
		if r.PauseJob && owner != nil && !owner.gone {
			m.pause(owner, now, message(r))
		}
	}
	m.out.await(m.out.seq)
	return Accepted
}

// again answers a report of an attempt that an earlier report has ended already. If it repeats that report,
// which was a failure or a reschedule, it is accepted again. Anything else is stale. So is a permanent
// failure: the report that ended the attempt was not permanent, or the run would have ended.
func (m *Machine) again(e *entry, r *Report) Verdict {
	run := &e.state.Run
	if r.Permanent || !retold(r, run.Uncounted == run.Attempt, run.Errors) {
		return Stale
	}
	m.out.await(e.seq)
	return Accepted
}

func message(r *Report) string {
	if r.Message == "" {
		return "failed without a message"
	}
	return r.Message
}

// names reports whether the token is that of e's newest attempt.
func (m *Machine) names(e *entry, tok Token) bool {
	r := &e.state.Run
	return !r.Grant.Term.IsZero() && tok.Grant == r.Grant && tok.Attempt == r.Attempt
}

// Settled answers a report of a run that has finished, from its record in the history. A repeat of the result
// that ended the run is accepted; anything else is stale.
func Settled(tok Token, r *Report, ended store.RunRecord, found bool) Verdict {
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
func (m *Machine) Heartbeat(now int64, tok Token) Verdict {
	m.Begin()
	e := m.live[tok.Run]
	switch {
	case e == nil:
		return Missing
	case e.doubtful() && m.specMissing(e):
		return Missing
	}
	m.acknowledge(e, tok, now)
	switch {
	case !m.names(e, tok) || e.place != running:
		return Stale
	case e.renewal == 0 && m.specMissing(e):
		return Missing
	}
	m.extend(e, now)
	return Accepted
}

// extend renews the lease of the attempt in force.
func (m *Machine) extend(e *entry, now int64) {
	e.putOff = 0
	if e.state.Run.Kept { // nothing to write: any later owner that loads it waits as long
		e.lease = max(e.lease, now+int64(keptFor))
		m.rearm(e)
		return
	}
	if e.renewal == 0 {
		e.renewal = m.jobOf(e).LeaseOrDefault()
	}
	e.lease = max(e.lease, now+int64(e.renewal))
	if e.durable && e.state.Run.Lease-now <= int64(heartbeatInterval(e.renewal)) {
		m.keepGrant(e)
	}
	m.rearm(e)
}

// TakesHeartbeat reports whether everything that a heartbeat of the run needs is in memory.
func (m *Machine) TakesHeartbeat(id identity.Run) bool {
	e := m.live[id]
	switch {
	case e == nil:
		return false
	case e.place == running:
		return e.renewal != 0
	}
	return !e.doubtful()
}

// Lost ends an attempt whose consumer is known to be gone. The run is retried at once.
func (m *Machine) Lost(now int64, tok Token, why string) Verdict {
	m.Begin()
	e := m.live[tok.Run]
	if e == nil || m.specMissing(e) {
		return Missing
	}
	m.acknowledge(e, tok, now)
	if !m.names(e, tok) || e.place != running {
		return Stale
	}
	m.stopOthers(e)
	m.fail(e, now, failure{message: why, lost: true})
	return Accepted
}

// Made reports whether this term made the attempt in force, and the attempt has this token. An attempt in
// doubt that is made again keeps its token, so a report about it from an earlier term does not apply to it
// any more.
func (m *Machine) Made(tok Token) bool {
	e := m.live[tok.Run]
	return e != nil && e.place == running && e.made && m.names(e, tok)
}

// Undelivered withdraws an attempt that was never sent, or whose stream has ended, for consumers whose
// attempts end with their stream. The attempt does not count, and the run is due at once.
func (m *Machine) Undelivered(now int64, tok Token) {
	m.Begin()
	e := m.live[tok.Run]
	if e == nil || !m.names(e, tok) || e.place != running {
		return
	}
	written := e.durable || e.first || e.seq >= e.since // the last case: another change had it written
	if e.isDapr() && !e.state.Run.Kept {
		written = false // any later owner that finds it in the store withdraws it as well: see reclaim
	}
	m.withdraw(e)
	// With its job in memory, or the job's counters would disagree with what is written of its run.
	if written && (e.ref.Seq == 0 || e.parent != nil) {
		m.touch(e)
	}
	m.enqueue(e, now)
}

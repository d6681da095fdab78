package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// Verdict is what a report or a heartbeat came to.
type Verdict uint8

// The verdicts.
const (
	// Accepted: it counts, once the batch of After is durable.
	Accepted Verdict = iota
	// Stale: the token is not in force; nothing was changed.
	Stale
	// Missing: the run is not in memory; read it and ask again, or look into the history with Settled.
	Missing
)

// Report takes a consumer's word on an attempt.
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
		// The target no longer minds the time: the attempt ends at its timeout, without the grace that HTTP has.
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
	m.wait(m.out.seq)
	return Accepted
}

// again answers a report of an attempt that a report has ended already: the one that did, a failure or a reschedule, is
// told the same as before; everything else comes too late. So does a permanent failure: the one that counts was not, or the run had
// ended.
func (m *Machine) again(e *entry, r *Report) Verdict {
	run := &e.state.Run
	if r.Permanent || !retold(r, run.Uncounted == run.Attempt, run.Errors) {
		return Stale
	}
	m.wait(e.seq)
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

// Settled answers a report of a run that is not unfinished any more, from its record in the history: the result that ended
// it, sent again, is accepted; everything else is stale.
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

// Heartbeat extends the lease of an attempt, in memory; it is written back only one heartbeat before the stored lease would run out.
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

// extend gives the attempt in force its lease anew.
func (m *Machine) extend(e *entry, now int64) {
	e.putOff = 0
	if e.state.Run.Kept { // nothing to write: whoever loads it waits as long
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

// TakesHeartbeat reports whether all that a heartbeat of the run needs is in memory.
func (m *Machine) TakesHeartbeat(id carillon.RunIdentity) bool {
	e := m.live[id]
	switch {
	case e == nil:
		return false
	case e.place == running:
		return e.renewal != 0
	}
	return !e.doubtful()
}

// Lost ends an attempt whose consumer is known to be gone: the run goes to another at once.
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

// Made reports whether the attempt in force has this token and was made in this term. One in doubt is made again with its token: what became
// of it under an earlier term says nothing of it then.
func (m *Machine) Made(tok Token) bool {
	e := m.live[tok.Run]
	return e != nil && e.place == running && e.made && m.names(e, tok)
}

// Undelivered takes back an attempt that never left, or whose stream has ended, for a consumer whose attempts go with their
// stream: it does not count, and the run is due at once.
func (m *Machine) Undelivered(now int64, tok Token) {
	m.Begin()
	e := m.live[tok.Run]
	if e == nil || !m.names(e, tok) || e.place != running {
		return
	}
	written := e.durable || e.first || e.seq >= e.since // or something else had it written
	if e.isDapr() && !e.state.Run.Kept {
		written = false // whoever finds it in the store takes it back: see reclaim
	}
	m.withdraw(e)
	if written && (e.ref.Seq == 0 || e.parent != nil) { // or a job's counters would not agree with what is written of its run
		m.touch(e)
	}
	m.enqueue(e, now)
}

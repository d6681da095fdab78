package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// runs begins and ends the runs of jobs, and moves the jobs on. A due run's way is in duerun.go; here is what
// else makes and ends runs:
//
//	a time is due    beginRun     waits for other jobs (released), misfire rule (choose), then dueRuns.start
//	during a run     overlap      beginBeside, replaceRun, or nothing
//	a caller asks    addPending   a pending run beside the job's own
//	an attempt ends  fail         the next attempt, or finish
//	it is stopped    detach       then abort, or closeRun, which leaves alone what comes next
//	a run ends       finish       keepRun: counters, history, notices; then the job's next time
type runs struct {
	cfg      *Config
	out      *builder
	contents *contents
	agenda   *agenda
	records  *Records
	due      *dueRuns
	attempts *Attempts
	window   *Window

	backfills    *Backfills
	dependencies *Dependencies
	history      *History
}

// addPending makes a pending run of a job. It is a record of its own, independent of the job's own run.
func (rs *runs) addPending(job *entry, s store.State, spec []byte) *entry {
	job.state.Pending++
	rs.out.note(job)
	s.Phase, s.Settled = carillon.PhaseReady, rs.cfg.Term.Epoch
	e := &entry{ref: store.Ref{Key: job.ref.Key, Seq: job.state.Triggers}, state: s, timer: -1, slot: -1}
	if spec != nil {
		rs.contents.set(e, spec)
		e.fresh, e.state.OwnSpec = true, true
	}
	rs.records.entries[e.ref] = e
	rs.records.live[s.Identity(rs.cfg.Partition)] = e
	rs.window.link(e, job)
	rs.due.touch(e)
	rs.due.block(e) // until it is durable
	return e
}

// detach takes e's run, which is about to end, out of where it waits or goes on, and reports whether a
// consumer had it. With unrepeat, a run that has had no attempt gives back the repeat that it has used up.
func (rs *runs) detach(e *entry, now int64, unrepeat bool) (interrupted bool) {
	interrupted = rs.attempts.revoke(e, now)
	if unrepeat {
		rs.unrepeat(e, now)
	}
	rs.window.unlist(e)
	return interrupted
}

// abort ends e's run wherever it is, and reports whether a consumer had it. The spec must be in memory.
func (rs *runs) abort(e *entry, now int64, reason string) (interrupted bool) {
	interrupted = rs.detach(e, now, false)
	rs.finish(e, now, ending{status: carillon.RunCancelled, reason: reason})
	return interrupted
}

// closeRun ends the detached run of a job itself. In contrast to finish it leaves alone what comes next.
func (rs *runs) closeRun(job *entry, now int64, end ending) {
	rs.keepRun(job, now, end)
	job.state.Run, job.state.Phase = store.RunState{}, carillon.PhaseScheduled
}

package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// A job's counters are in its record, but what they count may be in the records of its pending runs. Both
// must change in one batch, or a node that is killed in between counts an attempt twice, or not at all. An
// attempt need not be written when it is handed out, but the record of its job may be written at any time. So
// in memory the job counts a pending run's attempts at once, and entry.unwritten holds what of that is not in
// a batch yet: in a pending run its own part, in a job the sum of those parts. The job's record is written
// without that part. It is included when the run's own record is written (settleAllCounts).

// count adds to the counters of e's job.
func (e *entry) count(by carillon.Counters) { e.countBy(&by, addTo) }

// uncountAttempt takes back what was counted for the newest attempt of e's run. late says whether it was
// counted as late: after a put it might not be now, see lateFrom.
func (e *entry) uncountAttempt(late bool) {
	by := e.granted()
	by.Late = 0
	if late {
		by.Late = 1
	}
	e.countBy(&by, takeFrom)
}

func (e *entry) countBy(by *carillon.Counters, change func(n *uint64, by uint64)) {
	if e.ref.Seq == 0 {
		each(&e.state.Counters, by, change)
		return
	}
	e.changeUnwritten(by, change)
	if p := e.parent; p != nil {
		each(&p.state.Counters, by, change)
		p.changeUnwritten(by, change)
	}
}

// changeUnwritten changes what is unwritten of an entry, of which there is rarely something.
func (e *entry) changeUnwritten(by *carillon.Counters, change func(n *uint64, by uint64)) {
	if e.unwritten == nil {
		e.unwritten = new(carillon.Counters)
	}
	each(e.unwritten, by, change)
	if *e.unwritten == (carillon.Counters{}) {
		e.unwritten = nil
	}
}

// each applies change to every counter of a, with that of b.
func each(a, b *carillon.Counters, change func(n *uint64, by uint64)) {
	change(&a.Fired, b.Fired)
	change(&a.Succeeded, b.Succeeded)
	change(&a.Failed, b.Failed)
	change(&a.Retried, b.Retried)
	change(&a.Dead, b.Dead)
	change(&a.Skipped, b.Skipped)
	change(&a.Late, b.Late)
	change(&a.Dropped, b.Dropped)
	change(&a.Cancelled, b.Cancelled)
}

// entry.unwritten may be negative: an attempt that an earlier owner wrote may be withdrawn. Such numbers wrap
// around, and are never used by themselves.
func addTo(n *uint64, by uint64)    { *n += by }
func takeFrom(n *uint64, by uint64) { *n -= by }

// joinCounts adds to a job what was counted for a pending run while the job was not in memory.
func (e *entry) joinCounts(job *entry) {
	if e.unwritten != nil {
		each(&job.state.Counters, e.unwritten, addTo)
		job.changeUnwritten(e.unwritten, addTo)
	}
}

// settleCounts settles a pending run's unwritten counts, when its record is written or it leaves memory. If
// written, the batch holds the run's record, and the job's record now includes them. Otherwise nothing of
// them has been or will be written, so the job drops them. It reports whether there were any.
func (e *entry) settleCounts(job *entry, written bool) (had bool) {
	if e.unwritten == nil {
		return false
	}
	job.changeUnwritten(e.unwritten, takeFrom)
	if !written {
		each(&job.state.Counters, e.unwritten, takeFrom)
	}
	e.unwritten = nil
	return true
}

// settleAllCounts has the jobs written, in the batch being sealed, whose pending runs in it have unwritten
// counts.
func (b *builder) settleAllCounts() {
	for _, e := range b.changed { // jobs are appended meanwhile; they have no parent
		if p := e.parent; p != nil && e.settleCounts(p, true) {
			b.note(p)
		}
	}
}

// writtenCounts returns the counters for e's record: without what is unwritten.
func (e *entry) writtenCounts() carillon.Counters {
	switch {
	case e.ref.Seq != 0:
		return carillon.Counters{}
	case e.unwritten == nil: // the usual case; the rest allocates
		return e.state.Counters
	}
	c := e.state.Counters
	each(&c, e.unwritten, takeFrom)
	return c
}

// lateAfter is how late, in ns, a first attempt must be to count as late.
const lateAfter = int64(1e9)

// countAttempt counts the attempt that e has just been granted.
func (e *entry) countAttempt() {
	by := e.granted()
	e.attempt.late = by.Late == 1
	e.count(by)
}

// countedLate reports whether the attempt in force was counted as late. Of one that was taken over that is
// told by what its record says now, unless its job has not counted any.
func (e *entry) countedLate() bool {
	switch {
	case e.attempt.origin != takenOver:
		return e.attempt.late
	case e.ref.Seq == 0 && e.state.Counters.Late == 0:
		return false
	}
	return e.granted().Late == 1
}

// granted returns what the newest attempt of e's run counts as.
func (e *entry) granted() (c carillon.Counters) {
	r := &e.state.Run
	switch {
	case resumes(r): // the run goes on: it neither begins nor is retried
	case r.Attempt > 1:
		c.Retried = 1
	default:
		c.Fired = 1
		if r.Started-e.lateFrom(r.Started) > lateAfter {
			c.Late = 1
		}
	}
	return c
}

// lateFrom returns from when on an attempt that begins at an instant is late: from when it was due, or from
// when its job was put, if that was later. A time in the past begins with the put. Which put that was is not
// known any more if a later one came after the attempt began; then the first one counts.
func (e *entry) lateFrom(began int64) int64 {
	due := e.state.Run.Due
	switch {
	case e.ref.Seq != 0: // a pending run is created when it is due
		return due
	case e.state.Updated > began:
		return max(due, e.state.Created)
	}
	return max(due, e.state.Updated)
}

// resumes reports whether the newest attempt is the first after a reschedule or a redrive.
func resumes(r *store.RunState) bool { return r.Uncounted > 0 && r.Attempt == r.Uncounted+1 }

// countEnd counts the end of e's run, whose state is still in e.
func (e *entry) countEnd(status carillon.RunStatus) {
	var c carillon.Counters
	switch status {
	case carillon.RunSucceeded:
		c.Succeeded = 1
	case carillon.RunFailed:
		c.Dropped = 1
	case carillon.RunDead:
		c.Dead = 1
	case carillon.RunSkipped:
		c.Skipped = 1
	case carillon.RunCancelled:
		if e.state.Run.Attempt > 0 {
			c.Cancelled = 1
		}
	}
	e.count(c)
}

// countAgain counts a dead run as unfinished again. The job of that name may not have counted it: it may be
// another job by now, or one that a redrive brought back, whose counters began at 0.
func countAgain(job *store.State, dead *store.RunRecord) {
	if job.UID == dead.ID.UID && (!broughtBack(job) || dead.Finished >= job.Created) {
		job.Counters.Dead -= min(job.Counters.Dead, 1)
	} else {
		job.Counters.Fired++
	}
}

// broughtBack reports whether a redrive has brought back a job that was gone: [Jobs.Redrive] has the
// sequences of its pending runs begin at that time, in ns. Others count them from 0.
func broughtBack(job *store.State) bool { return job.Triggers >= uint64(job.Created) }

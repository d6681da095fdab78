package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// A job's counters stand in its record, and some of what they count in others: its pending runs. Both must change in one batch, or
// a node that is killed in between counts the same attempt twice, or not at all. An attempt need not be written when it is handed
// out, but the record of its job may be at any time. So in memory a job counts at once what a run beside its own does, and an entry
// also keeps what of that is not in a batch yet (entry.unsaid): of a pending run its own part, of a job the sum of those. The
// record of a job is written without it, and with it as soon as the run's own record is (settleCounts).

// count adds to the counters of e's job.
func (m *Machine) count(e *entry, by carillon.Counters) { m.countBy(e, &by, addTo) }

// uncount takes back what was counted for e.
func (m *Machine) uncount(e *entry, by carillon.Counters) { m.countBy(e, &by, takeFrom) }

func (m *Machine) countBy(e *entry, by *carillon.Counters, change func(n *uint64, by uint64)) {
	if e.ref.Seq == 0 {
		each(&e.state.Counters, by, change)
		return
	}
	each(&e.unsaid, by, change)
	if p := e.parent; p != nil {
		each(&p.state.Counters, by, change)
		each(&p.unsaid, by, change)
	}
}

// each changes every counter of a by that of b.
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

// What is not in a batch yet may be less than nothing: an attempt that an earlier owner wrote is taken back. Such numbers wrap
// around, and are never seen by themselves.
func addTo(n *uint64, by uint64)    { *n += by }
func takeFrom(n *uint64, by uint64) { *n -= by }

// joinCounts has a job count what was counted for a pending run while the job was not in memory.
func (e *entry) joinCounts(job *entry) {
	if e.unsaid != (carillon.Counters{}) {
		each(&job.state.Counters, &e.unsaid, addTo)
		each(&job.unsaid, &e.unsaid, addTo)
	}
}

// leaveCounts is the end of a pending run in memory. If its record goes with it, in this batch, the job's says what it counted;
// otherwise nothing of it has been, or will be, written. It reports whether it had counted anything that was not in a batch.
func (e *entry) leaveCounts(job *entry, written bool) (had bool) {
	if e.unsaid == (carillon.Counters{}) {
		return false
	}
	each(&job.unsaid, &e.unsaid, takeFrom)
	if !written {
		each(&job.state.Counters, &e.unsaid, takeFrom)
	}
	e.unsaid = carillon.Counters{}
	return true
}

// settleCounts has the batch that is being closed write, with the pending runs that it has, the jobs that count them.
func (m *Machine) settleCounts() {
	for _, e := range m.out.changed { // jobs are added to it meanwhile, which have no parent
		if p := e.parent; p != nil && e.leaveCounts(p, true) {
			m.note(p)
		}
	}
}

// saidCounts are the counters of e as its record has them.
func (e *entry) saidCounts() carillon.Counters {
	switch {
	case e.ref.Seq != 0:
		return carillon.Counters{}
	case e.unsaid == carillon.Counters{}: // as mostly; what follows allocates
		return e.state.Counters
	}
	c := e.state.Counters
	each(&c, &e.unsaid, takeFrom)
	return c
}

// lateAfter is when a first attempt counts as late.
const lateAfter = int64(1e9)

// countGrant counts the attempt that e has just been granted.
func (m *Machine) countGrant(e *entry) { m.count(e, granted(&e.state.Run)) }

// granted is what the newest attempt of a run counts as.
func granted(r *store.RunState) (c carillon.Counters) {
	switch {
	case resumes(r): // the run goes on: it neither begins nor is tried once more
	case r.Attempt > 1:
		c.Retried = 1
	default:
		c.Fired = 1
		if r.Started-r.Due > lateAfter {
			c.Late = 1
		}
	}
	return c
}

// resumes reports whether the newest attempt is the first after a reschedule or a redrive.
func resumes(r *store.RunState) bool { return r.Uncounted > 0 && r.Attempt == r.Uncounted+1 }

// countEnd counts the end of e's run, which has not been taken from it yet.
func (m *Machine) countEnd(e *entry, status carillon.RunStatus) {
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
	m.count(e, c)
}

// countAgain counts a dead run, of the job with this uid, among the unfinished ones of a job again, which may be another by now.
func countAgain(job *store.State, uid carillon.UID) {
	if job.UID == uid {
		job.Counters.Dead -= min(job.Counters.Dead, 1)
	} else {
		job.Counters.Fired++
	}
}

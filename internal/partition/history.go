package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// keepRun writes the run that ends into the history, and counts it.
func (m *Machine) keepRun(e *entry, now int64, end ending) {
	m.concede(e)
	s := &e.state
	r := store.RunRecord{
		ID: s.Identity(m.cfg.Partition), Grant: s.Run.Grant, Status: end.status, Reason: end.reason,
		Due: s.Run.Due, Started: s.Run.Started, Finished: now, Attempt: s.Run.Attempt, Errors: s.Run.Errors, InDoubt: s.Run.InDoubt,
	}
	if end.report != nil {
		r.Worker, r.Response = end.report.Worker, end.report.Response
		if len(r.Response) > carillon.MaxResponse {
			r.Response = r.Response[:carillon.MaxResponse]
		}
	}
	m.countEnd(e, end.status)
	switch end.status {
	case carillon.RunSucceeded:
		m.Dependencies.succeeded(e.ref.Key, r.ID)
	case carillon.RunDead:
		r.Spec = e.specOf()
	case carillon.RunSkipped:
		if m.cfg.Events.Skipped != nil {
			m.cfg.Events.Skipped(end.reason, 1)
		}
	}
	if o := e.owner(); o != nil {
		o.state.Last = store.LastRun{Scheduled: s.Run.Scheduled, Finished: now, Cause: s.Run.Cause, Seq: s.Run.Seq,
			Attempt: s.Run.Attempt, Status: end.status}
	}
	m.historyOf(e, r)
	if m.cfg.Events.Finished != nil {
		m.cfg.Events.Finished(end.status)
	}
}

// historyOf adds a record to the history of e's job, as far as the job keeps any. Dead runs are always kept.
func (m *Machine) historyOf(e *entry, r store.RunRecord) {
	j := m.jobOf(e)
	keep := j.HistoryRuns()
	r.Key = e.ref.Key
	r.Expires = r.Finished + int64(j.HistoryKeep())
	if r.Status == carillon.RunDead {
		r.Expires = r.Finished + int64(m.cfg.DeadRetention)
	} else if keep == 0 {
		return
	}
	if m.out.runs == nil {
		m.out.runs = make([]store.RunRecord, 0, max(1, min(m.out.usual, mostRoom)))
	}
	m.out.runs = append(m.out.runs, r)
	m.out.await(m.out.seq)
	if m.kept++; 2*m.kept >= m.cfg.HistoryExpires {
		m.Sweep(r.Finished)
	}
	o := e.owner()
	if o == nil || r.Status == carillon.RunDead {
		return
	}
	o.state.Kept++
	if int(o.state.Kept) >= keep+max(keep/2, trimSlack) {
		o.state.Kept = uint32(keep)
		m.out.trims = append(m.out.trims, store.Trim{Key: r.Key, Keep: keep})
	}
}

// mostRoom bounds the room that is made beforehand for a batch's finished runs, which goes by the previous
// batch.
const mostRoom = 128

// trimSlack is how many runs beyond the job's limit the store may hold before it is trimmed, so that not
// every run deletes one.
const trimSlack = 10

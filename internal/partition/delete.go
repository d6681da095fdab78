package partition

import "github.com/carillonhq/carillon"

// Delete removes a job with all its unfinished runs, which stay in the history as cancelled.
func (m *Machine) Delete(now int64, key carillon.Key, opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	e := m.Records.find(key)
	if e == nil {
		return carillon.DeleteResult{}, notFound(key)
	}
	if o := (carillon.DeleteOptions{}).With(opts...); o.IfGeneration != 0 && o.IfGeneration != e.state.Generation {
		return carillon.DeleteResult{}, otherGeneration(e)
	}
	d := carillon.DeleteResult{Interrupted: m.cancelRuns(e, now, ReasonDeleted)}
	m.Window.remove(e)
	return d, nil
}

// cancelRuns ends what goes on of a job that ends: its unfinished runs, which stay in the history as
// cancelled, and its backfills. It reports whether a consumer had one of the runs. The record of the job
// itself is left to the caller.
func (m *Machine) cancelRuns(job *entry, now int64, reason string) (interrupted bool) {
	for _, r := range m.Records.familyOf(job).runs {
		if m.Attempts.revoke(r) {
			interrupted = true
		}
		m.keepRun(r, now, ending{status: carillon.RunCancelled, reason: reason})
		if r != job {
			m.Window.remove(r)
		}
	}
	m.Backfills.drop(job.ref.Key)
	return interrupted
}

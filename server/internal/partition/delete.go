package partition

import "github.com/carillonhq/carillon"

// Delete removes a job with all its unfinished runs, which stay in the history as cancelled.
func (js *Jobs) Delete(now int64, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	e := js.records.find(key)
	if e == nil {
		return carillon.DeleteResult{}, notFound(key)
	}
	if o := (carillon.DeleteOptions{}).With(opts...); o.IfGeneration != 0 &&
		o.IfGeneration != e.state.Generation {
		return carillon.DeleteResult{}, otherGeneration(e)
	}
	d := carillon.DeleteResult{Interrupted: js.cancelRuns(e, now, ReasonDeleted)}
	js.out.events.tellJob(now, e, carillon.EventJobDeleted)
	js.window.remove(e)
	return d, nil
}

// cancelRuns ends what goes on of a job that ends: its unfinished runs, which stay in the history as
// cancelled, and its backfills. It reports whether a consumer had one of the runs. The record of the job
// itself is left to the caller.
func (js *Jobs) cancelRuns(job *entry, now int64, reason string) (interrupted bool) {
	for _, r := range js.records.familyOf(job).runs {
		if js.attempts.revoke(r, now) {
			interrupted = true
		}
		js.runs.keepRun(r, now, ending{status: carillon.RunCancelled, reason: reason})
		if r != job {
			js.window.remove(r)
		}
	}
	js.backfills.drop(job.ref.Key)
	return interrupted
}

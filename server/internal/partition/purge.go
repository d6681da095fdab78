package partition

import (
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/store"
)

// Purge cancels the run of a record if it waits in the queue and was due by an instant (UTC ns), and reports
// whether it does. With dry it only reports. The record must be in memory and up to date (Tick), and of a
// pending run its job. Attempts in force stay, and so do runs that wait for the time of their next attempt.
func (js *Jobs) Purge(now int64, ref store.Ref, q delivery.Queue, due int64, dry bool) (waits bool) {
	e := js.records.entries[ref]
	if e == nil || !js.waitsSince(e, due) || delivery.QueueOf(ref.Namespace, e.job().Target) != q {
		return false
	}
	if !dry {
		js.runs.abort(e, now, ReasonPurged)
	}
	return true
}

// waitsSince reports whether e has a run that was due by an instant and of which no attempt is in force.
func (js *Jobs) waitsSince(e *entry, due int64) bool {
	return e.place != running && e.place != gone && e.state.Run.Live && e.state.Run.Due <= due &&
		!js.records.specMissing(e)
}

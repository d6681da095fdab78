package partition

import (
	"slices"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// An attempt in doubt that is made again has one token and may have several consumers. One of them reports.
// Nothing else would ever reach the others, so they are told to stop. But a consumer that is told to stop
// discards the result that it has yet to report. So the others are told only when the outcome of that report
// is durable: they may be the same worker, on another of its streams.

// duplicate is an attempt that one consumer has reported on, and that others may have.
type duplicate struct {
	delivery.Cancel
	until int64  // when it would have ended at the latest, UTC ns
	seq   uint64 // the batch that holds the outcome
}

// stopDuplicates prepares the cancels of an attempt that one consumer has reported on. Call it before the
// attempt ends.
func (a *Attempts) stopDuplicates(e *entry) {
	if !e.shared() {
		return
	}
	n := len(a.cancels)
	a.stop(e)
	for _, c := range a.cancels[n:] {
		a.duplicates = append(a.duplicates, duplicate{c, e.state.Run.Deadline, a.out.seq})
	}
	a.cancels = a.cancels[:n]
}

// shared reports whether e's attempt in force may have been handed out more than once under its token.
func (e *entry) shared() bool {
	return e.place == running && !e.state.Run.Doubt.Term.IsZero() && !e.traits().endsWithStream
}

// durableDuplicates takes the prepared cancels whose batch is durable.
func (a *Attempts) durableDuplicates() (cs []delivery.Cancel) {
	n := 0
	for ; n < len(a.duplicates) && a.duplicates[n].seq <= a.out.durable; n++ {
		cs = append(cs, a.duplicates[n].Cancel)
	}
	a.duplicates = slices.Delete(a.duplicates, 0, n)
	return cs
}

package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// SearchAll is how many of a job's newest triggers are searched for pending runs that an operation must
// reach.
const SearchAll = 100_000

// Absent returns at most n refs, newest first, among which are the job's pending runs that are not in memory.
// It returns none if all are in memory. Pass the sequence of the last ref returned to continue below it; 0
// begins with the newest.
func (rs *Records) Absent(key carillon.Key, last uint64, n int) []store.Ref {
	e := rs.entries[store.Ref{Key: key}]
	if e == nil || e.place == gone || e.complete() {
		return nil
	}
	newest := e.state.Triggers
	if last == 0 || last > newest {
		last = newest + 1
	}
	var refs []store.Ref
	for seq := last - 1; seq > 0 && newest-seq < SearchAll && len(refs) < n; seq-- {
		if ref := (store.Ref{Key: key, Seq: seq}); rs.entries[ref] == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

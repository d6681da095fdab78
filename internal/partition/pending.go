package partition

import (
	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// SearchAll is how many of a job's newest triggers are looked through for pending runs that an operation must reach.
const SearchAll = 100_000

// Absent are records, newest first and at most n, among which pending runs of the job are that are not in memory; none if
// all are. Those asked for before are left out by giving the sequence of the last one; 0 begins with the newest.
func (m *Machine) Absent(key carillon.Key, last uint64, n int) []store.Ref {
	e := m.entries[store.Ref{Key: key}]
	if e == nil || e.gone || int(e.state.Pending) <= int(e.children) {
		return nil
	}
	newest := e.state.Triggers
	if last == 0 || last > newest {
		last = newest + 1
	}
	var refs []store.Ref
	for seq := last - 1; seq > 0 && newest-seq < SearchAll && len(refs) < n; seq-- {
		if ref := (store.Ref{Key: key, Seq: seq}); m.entries[ref] == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

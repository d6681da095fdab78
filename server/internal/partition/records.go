package partition

import (
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// Records are the records in memory, and what must be read before some of them can go on.
type Records struct {
	cfg     *Config
	out     *builder
	entries map[store.Ref]*entry
	live    map[store.RunID]*entry    // those with an unfinished run
	orphans map[carillon.Key][]*entry // pending runs whose job is not in memory
	// Jobs whose delete is not durable yet, and its batch; their pending runs are deleted with them.
	deleting map[carillon.Key]uint64
	needs    map[store.Ref]struct{} // records that must be read before entries can go on
}

func newRecords(cfg *Config, out *builder) *Records {
	return &Records{
		cfg:      cfg,
		out:      out,
		entries:  map[store.Ref]*entry{},
		live:     map[store.RunID]*entry{},
		orphans:  map[carillon.Key][]*entry{},
		deleting: map[carillon.Key]uint64{},
		needs:    map[store.Ref]struct{}{},
	}
}

// complete reports whether everything that e's run needs is in memory. Needs asks for what is missing.
func (rs *Records) complete(e *entry) bool {
	if e.ref.Seq != 0 && e.parent == nil {
		rs.needs[e.ref.Job()] = struct{}{}
		return false
	}
	missing := false
	if e.own() && e.spec == nil {
		rs.needs[e.ref], missing = struct{}{}, true
	}
	// Also for a run with a spec of its own: how it ends may pause its job.
	if e.ref.Seq != 0 && e.parent.spec == nil {
		rs.needs[e.parent.ref], missing = struct{}{}, true
	}
	return !missing
}

// specMissing is the negation of complete.
func (rs *Records) specMissing(e *entry) bool { return !rs.complete(e) }

// doomed reports whether r is a pending run of a deleted job: the store will lose it as soon as the batches
// in flight are applied.
func (rs *Records) doomed(r *store.Record) bool {
	if r.Seq == 0 {
		return false
	}
	_, doomed := rs.deleting[r.Key]
	return doomed
}

// disown forgets a pending run whose job never came into memory.
func (rs *Records) disown(e *entry) {
	key := e.ref.Key
	rest := slices.DeleteFunc(rs.orphans[key], func(o *entry) bool { return o == e })
	if rs.orphans[key] = rest; len(rest) == 0 {
		delete(rs.orphans, key)
	}
}

package contents

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// records are the jobs and pending runs of a partition. A record is never changed, only replaced, so every
// index holds the record itself and a query of an index is a record with the fields that the index compares.
type records struct {
	partition int
	byRef     *btree.BTreeG[*store.Record]
	due       *btree.BTreeG[*store.Record]
	staged    *btree.BTreeG[*store.Record]
	byPhase   *btree.BTreeG[*store.Record] // but those that are scheduled
	live      *btree.BTreeG[*store.Record] // those with an unfinished run, by its identity
}

func newRecords(partition int) *records {
	return &records{
		partition: partition,
		byRef:     newTree(lessRef),
		due:       newTree(lessDue),
		staged:    newTree(lessStaged),
		byPhase:   newTree(lessPhase),
		live:      newTree(lessLive),
	}
}

func lessRef(a, b *store.Record) bool { return a.Compare(b.Ref) < 0 }

func lessDue(a, b *store.Record) bool {
	switch {
	case a.State.Priority != b.State.Priority:
		return a.State.Priority < b.State.Priority
	case a.State.Due != b.State.Due:
		return a.State.Due < b.State.Due
	}
	return lessRef(a, b)
}

func lessStaged(a, b *store.Record) bool {
	switch {
	case a.State.Queue != b.State.Queue:
		return a.State.Queue < b.State.Queue
	case a.State.Priority != b.State.Priority:
		return a.State.Priority < b.State.Priority
	case a.State.Run.Due != b.State.Run.Due:
		return a.State.Run.Due < b.State.Run.Due
	}
	return lessRef(a, b)
}

// lessPhase orders by phase, jobs before pending runs.
func lessPhase(a, b *store.Record) bool {
	switch {
	case a.State.Phase != b.State.Phase:
		return a.State.Phase < b.State.Phase
	case (a.Seq == 0) != (b.Seq == 0):
		return a.Seq == 0
	}
	return lessRef(a, b)
}

// lessLive orders by the identity of the unfinished run.
func lessLive(a, b *store.Record) bool {
	return cmp.Or(
		bytes.Compare(a.State.UID[:], b.State.UID[:]),
		cmp.Compare(a.State.Run.Scheduled, b.State.Run.Scheduled),
		cmp.Compare(a.State.Run.Cause, b.State.Run.Cause),
		cmp.Compare(a.State.Run.Seq, b.State.Run.Seq)) < 0
}

// put writes records. All old index entries go before the first new one comes, because a run may move from
// one record to another within a batch.
func (r *records) put(puts []store.Record, t *Touched) {
	kept := make([]*store.Record, len(puts))
	for i := range puts {
		kept[i] = keep(&puts[i])
		old, ok := r.byRef.Get(kept[i])
		if !ok {
			continue
		}
		r.unindex(old)
		if kept[i].Spec == nil {
			kept[i].Spec = old.Spec
		}
	}
	for _, rec := range kept {
		r.index(rec)
		t.record(rec.Ref)
	}
}

// remove deletes a record; a job goes with its pending runs.
func (r *records) remove(ref store.Ref, t *Touched) {
	var gone []*store.Record
	r.byRef.Ascend(&store.Record{Ref: ref}, func(rec *store.Record) bool {
		if rec.Ref != ref && (ref.Seq != 0 || rec.Key != ref.Key) {
			return false
		}
		gone = append(gone, rec)
		return true
	})
	for _, rec := range gone {
		r.unindex(rec)
		t.record(rec.Ref)
	}
}

func (r *records) index(rec *store.Record) {
	r.byRef.Set(rec)
	if rec.State.Due != 0 {
		r.due.Set(rec)
	}
	if rec.State.Phase == carillon.PhaseStaged {
		r.staged.Set(rec)
	}
	if rec.State.Phase != carillon.PhaseScheduled {
		r.byPhase.Set(rec)
	}
	if rec.State.Run.Live {
		r.live.Set(rec)
	}
}

func (r *records) unindex(rec *store.Record) {
	r.byRef.Delete(rec)
	r.due.Delete(rec)
	r.staged.Delete(rec)
	r.byPhase.Delete(rec)
	if found, ok := r.live.Get(rec); ok && found == rec {
		r.live.Delete(rec)
	}
}

// of finds the record whose unfinished run has the identity.
func (r *records) of(id store.RunID) (store.Ref, bool) {
	if int(id.Partition) != r.partition {
		return store.Ref{}, false
	}
	asked := &store.Record{State: store.State{UID: id.UID,
		Run: store.RunState{Scheduled: id.Scheduled, Cause: id.Cause, Seq: id.Seq}}}
	found, ok := r.live.Get(asked)
	if !ok {
		return store.Ref{}, false
	}
	return found.Ref, true
}

func (r *records) copied() *records {
	return &records{partition: r.partition, byRef: r.byRef.Copy(), due: r.due.Copy(), staged: r.staged.Copy(),
		byPhase: r.byPhase.Copy(), live: r.live.Copy()}
}

func (r *records) read(refs []store.Ref) []store.Record {
	out := make([]store.Record, len(refs))
	for i, ref := range refs {
		out[i].Ref = ref
		if rec, ok := r.byRef.Get(&store.Record{Ref: ref}); ok {
			out[i] = hand(rec, 0)
		}
	}
	return out
}

func (r *records) list(q store.ListQuery) []store.Record {
	switch {
	case q.FirstOfEach:
		return r.firstOfEach(q)
	case q.PendingOf != nil:
		return listIn(r.byRef, q, store.Record{}, func(rec *store.Record) bool { return rec.Key == *q.PendingOf })
	case !q.ByPhase():
		return listIn(r.byRef, q, store.Record{}, anyRecord)
	}
	from := store.Record{State: store.State{Phase: *q.Phase}}
	jobs := listIn(r.byPhase, q, from, func(rec *store.Record) bool {
		return rec.State.Phase == *q.Phase && rec.Seq == 0
	})
	if !q.Pending {
		return jobs
	}
	from.Seq = 1 // behind the jobs
	pending := listIn(r.byPhase, q, from, func(rec *store.Record) bool { return rec.State.Phase == *q.Phase })
	all := slices.Concat(jobs, pending)
	slices.SortFunc(all, func(a, b store.Record) int { return a.Compare(b.Ref) })
	return all[:min(len(all), q.Limit)]
}

func anyRecord(*store.Record) bool { return true }

// listIn lists records of an index that is in the order of refs among those that belong. A record from which
// it begins has the fields that the index compares before the ref.
func listIn(tree *btree.BTreeG[*store.Record], q store.ListQuery, from store.Record,
	belongs func(rec *store.Record) bool) (out []store.Record) {
	after, exclusive := q.Place()
	first := listFrom(q)
	if from.Seq > 0 {
		first.Seq = max(first.Seq, 1)
	} else if from.State.Phase != carillon.PhaseScheduled {
		first.Seq = 0 // it compares jobs with jobs
	}
	from.Ref = first
	tree.Ascend(&from, func(rec *store.Record) bool {
		if len(out) >= q.Limit || !belongs(rec) || q.PendingOf == nil && q.Namespace != "" &&
			(rec.Namespace != q.Namespace || pastPrefix(rec.Name, q.Prefix)) {
			return false
		}
		if (!exclusive || rec.Compare(after) > 0) && listed(rec, &q) {
			out = append(out, hand(rec, q.MaxSpec))
		}
		return true
	})
	return out
}

// listed reports whether a record is one that the query asks for, wherever it stands.
func listed(rec *store.Record, q *store.ListQuery) bool {
	if q.Phase != nil && rec.State.Phase != *q.Phase {
		return false
	}
	return q.PendingOf != nil || (rec.Seq == 0 || q.Pending) && strings.HasPrefix(rec.Name, q.Prefix)
}

// firstOfEach returns the first job of each namespace after a namespace.
func (r *records) firstOfEach(q store.ListQuery) (out []store.Record) {
	for after, found := q.After, true; found && len(out) < q.Limit; {
		from := &store.Record{Ref: store.Ref{Key: carillon.Key{Namespace: after + "\x00"}}}
		found = false
		r.byRef.Ascend(from, func(rec *store.Record) bool {
			if found = rec.Seq == 0; found {
				out, after = append(out, hand(rec, q.MaxSpec)), rec.Namespace
			}
			return !found
		})
	}
	return out
}

// pastPrefix reports whether no name from this one on has the prefix.
func pastPrefix(name, prefix string) bool { return name > prefix && !strings.HasPrefix(name, prefix) }

// listFrom is where a list begins: at the last record seen, and not before the prefix.
func listFrom(q store.ListQuery) store.Ref {
	seen, _ := q.Place()
	first := store.Ref{Key: carillon.Key{Namespace: q.Namespace, Name: q.Prefix}}
	if q.PendingOf == nil && q.Namespace != "" && seen.Compare(first) < 0 {
		return first
	}
	return seen
}

func (r *records) listDue(q store.DueQuery) []store.Record {
	from := &store.Record{Ref: q.After.Ref, State: store.State{Priority: q.Priority, Due: q.After.Due}}
	if q.After == (store.Cursor{}) {
		from.State.Due = math.MinInt64
	}
	var out []store.Record
	r.due.Ascend(from, func(rec *store.Record) bool {
		if len(out) >= q.Limit || rec.State.Priority != q.Priority || rec.State.Due > q.Until {
			return false
		}
		if lessDue(from, rec) {
			out = append(out, hand(rec, q.MaxSpec))
		}
		return true
	})
	return out
}

func (r *records) listStaged(q store.StagedQuery) []store.Record {
	from := &store.Record{Ref: q.After.Ref, State: store.State{Queue: q.Queue, Priority: q.After.Priority}}
	from.State.Run.Due = q.After.Due
	if q.After == (store.Cursor{}) {
		from.State.Run.Due = math.MinInt64
	}
	var out []store.Record
	r.staged.Ascend(from, func(rec *store.Record) bool {
		if len(out) >= q.Limit || rec.State.Queue != q.Queue {
			return false
		}
		if lessStaged(from, rec) {
			out = append(out, hand(rec, q.MaxSpec))
		}
		return true
	})
	return out
}

// keep copies what a batch holds.
func keep(rec *store.Record) *store.Record {
	kept := *rec
	kept.Exists = true
	kept.Spec = bytes.Clone(rec.Spec)
	kept.State.Run.Errors = slices.Clone(rec.State.Run.Errors)
	return &kept
}

// hand copies what is stored, without a spec longer than maxSpec (0 = any).
func hand(rec *store.Record, maxSpec int) store.Record {
	out := *rec
	out.Spec = nil
	if maxSpec == 0 || len(rec.Spec) <= maxSpec {
		out.Spec = bytes.Clone(rec.Spec)
	}
	out.State.Run.Errors = slices.Clone(rec.State.Run.Errors)
	return out
}

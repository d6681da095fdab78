package storetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// model is one partition as the contract says it, with no thought for speed: no index, every query filters
// and sorts all there is. The random cases compare a store with it.
type model struct {
	partition int
	records   map[store.Ref]store.Record
	runs      map[store.RunID]store.RunRecord
	metas     map[metaKey]store.MetaRecord
}

type metaKey struct {
	kind byte
	key  string
}

func newModel(partition int) *model {
	return &model{partition, map[store.Ref]store.Record{}, map[store.RunID]store.RunRecord{},
		map[metaKey]store.MetaRecord{}}
}

func (m *model) apply(b store.Batch) {
	for _, gone := range b.Deletes {
		for ref := range m.records {
			if ref == gone || gone.Seq == 0 && ref.Key == gone.Key {
				delete(m.records, ref)
			}
		}
	}
	for _, r := range b.Puts {
		if r.Spec == nil {
			r.Spec = m.records[r.Ref].Spec
		}
		m.records[r.Ref] = stored(r)
	}
	for _, r := range b.Redrive {
		if m.runs[r.ID].Status == carillon.RunDead {
			delete(m.runs, r.ID)
		}
	}
	for _, r := range b.Runs {
		m.runs[r.ID] = r
	}
	for _, t := range b.Trims {
		m.trim(t)
	}
	if b.Expire != nil {
		m.expire(*b.Expire)
	}
	for _, x := range b.MetaRecords {
		if x.Value == nil {
			delete(m.metas, metaKey{x.Kind, x.Key})
		} else {
			m.metas[metaKey{x.Kind, x.Key}] = x
		}
	}
}

func (m *model) trim(t store.Trim) {
	finished := slices.DeleteFunc(m.history(store.RunQuery{Job: &t.Key}), isDead)
	for _, r := range finished[min(t.Keep, len(finished)):] {
		delete(m.runs, r.ID)
	}
}

func isDead(r store.RunRecord) bool { return r.Status == carillon.RunDead }

func (m *model) expire(e store.Expire) {
	all := valuesOf(m.runs)
	slices.SortFunc(all, func(a, b store.RunRecord) int { return cmp.Compare(a.Expires, b.Expires) })
	alive := len(all) - len(slices.DeleteFunc(slices.Clone(all),
		func(r store.RunRecord) bool { return !isDead(r) }))
	removed := 0
	for _, ended := range []bool{true, false} {
		for _, r := range all {
			if removed == e.Limit || (r.Expires <= e.Before) != ended || !ended && (isDead(r) || alive <= e.Most) {
				continue
			}
			delete(m.runs, r.ID)
			removed++
			if !isDead(r) {
				alive--
			}
		}
	}
}

func valuesOf[K comparable, V any](m map[K]V) []V {
	out := make([]V, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// pick is the records that pass, in order, cut to the limit.
func pick[T any](all []T, limit int, pass func(T) bool, order func(a, b T) int) []T {
	all = slices.DeleteFunc(all, func(x T) bool { return !pass(x) })
	slices.SortFunc(all, order)
	return all[:min(limit, len(all))]
}

func byRef(a, b store.Record) int { return a.Compare(b.Ref) }

func byDue(a, b store.Record) int { return cmp.Or(cmp.Compare(a.State.Due, b.State.Due), byRef(a, b)) }

func byRunDue(a, b store.Record) int {
	return cmp.Or(cmp.Compare(a.State.Priority, b.State.Priority),
		cmp.Compare(a.State.Run.Due, b.State.Run.Due), byRef(a, b))
}

func (m *model) read(ref store.Ref) store.Record {
	if r, ok := m.records[ref]; ok {
		return r
	}
	return store.Record{Ref: ref}
}

func (m *model) list(q store.ListQuery) []store.Record {
	if q.FirstOfEach {
		return m.firstOfEach(q)
	}
	return shortSpecs(q.MaxSpec, pick(valuesOf(m.records), q.Limit, func(r store.Record) bool {
		if q.PendingOf != nil {
			return r.Key == *q.PendingOf && r.Seq > q.AfterSeq && (q.Phase == nil || r.State.Phase == *q.Phase)
		}
		place := r.Name
		if q.Namespace == "" {
			place = r.Namespace + "\x00" + r.Name
		}
		return (r.Seq == 0 || q.Pending) && (q.Namespace == "" || r.Namespace == q.Namespace) &&
			strings.HasPrefix(r.Name, q.Prefix) &&
			(q.After == "" || place > q.After || q.Pending && place == q.After && r.Seq > q.AfterSeq) &&
			(q.Phase == nil || r.State.Phase == *q.Phase)
	}, byRef))
}

func (m *model) firstOfEach(q store.ListQuery) (out []store.Record) {
	for _, r := range m.list(store.ListQuery{Limit: len(m.records), MaxSpec: q.MaxSpec}) {
		if r.Namespace > q.After && (len(out) == 0 || r.Namespace != out[len(out)-1].Namespace) {
			out = append(out, r)
		}
	}
	return out[:min(len(out), q.Limit)]
}

func (m *model) due(q store.DueQuery) []store.Record {
	at := store.Record{Ref: q.After.Ref, State: store.State{Due: q.After.Due}}
	return shortSpecs(q.MaxSpec, pick(valuesOf(m.records), q.Limit, func(r store.Record) bool {
		return r.State.Due != 0 && r.State.Priority == q.Priority && r.State.Due <= q.Until &&
			(q.After == store.Cursor{} || byDue(r, at) > 0)
	}, byDue))
}

func (m *model) staged(q store.StagedQuery) []store.Record {
	at := store.Record{Ref: q.After.Ref, State: store.State{Priority: q.After.Priority,
		Run: store.RunState{Due: q.After.Due}}}
	return shortSpecs(q.MaxSpec, pick(valuesOf(m.records), q.Limit, func(r store.Record) bool {
		return r.State.Phase == carillon.PhaseStaged && r.State.Queue == q.Queue &&
			(q.After == store.Cursor{} || byRunDue(r, at) > 0)
	}, byRunDue))
}

func shortSpecs(most int, list []store.Record) []store.Record {
	for i := range list {
		if most > 0 && len(list[i].Spec) > most {
			list[i].Spec = nil
		}
	}
	return list
}

func (m *model) live(id store.RunID) (store.Ref, bool) {
	for ref, r := range m.records {
		if r.State.Run.Live && r.State.Identity(m.partition) == id {
			return ref, true
		}
	}
	return store.Ref{}, false
}

// history is the runs of a query without limit and position, newest first.
func (m *model) history(q store.RunQuery) []store.RunRecord {
	return pick(valuesOf(m.runs), len(m.runs), func(r store.RunRecord) bool {
		switch {
		case q.ID != nil:
			return r.ID == *q.ID
		case q.All:
			return true
		case q.Status != nil && r.Status != *q.Status:
			return false
		case q.Since != 0 && r.Finished < q.Since, q.Until != 0 && r.Finished >= q.Until:
			return false
		case q.Job != nil:
			return r.Key == *q.Job
		}
		return r.Key.Namespace == q.Namespace
	}, func(a, b store.RunRecord) int {
		if q.Job != nil {
			return cmp.Compare(b.ID.Scheduled, a.ID.Scheduled)
		}
		return cmp.Compare(b.Finished, a.Finished)
	})
}

func (m *model) metaRecords(q store.MetaQuery) []store.MetaRecord {
	return pick(valuesOf(m.metas), q.Limit, func(x store.MetaRecord) bool {
		return x.Kind == q.Kind && strings.HasPrefix(x.Key, q.Prefix) && (q.After == "" || x.Key > q.After)
	}, func(a, b store.MetaRecord) int { return cmp.Compare(a.Key, b.Key) })
}

func (m *model) counts() store.Counts {
	c := store.NewCounts()
	for _, r := range m.records {
		if r.State.Phase == carillon.PhaseStaged {
			c.AddStaged(r.State.Queue, 1, r.State.Run.Due)
		}
	}
	for _, r := range m.runs {
		if isDead(r) {
			c.Dead[r.Key.Namespace]++
		}
	}
	return c
}

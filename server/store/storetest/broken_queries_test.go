package storetest_test

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// asking is a store that changes questions, answering one that changes answers; most faults of indexes look
// like one of them.
func asking(f faults) func(*memory.Store) faults { return func(*memory.Store) faults { return f } }

// brokenQueries are stores whose indexes or queries are wrong.
var brokenQueries = []broken{
	{fault: "returns Due out of order", caughtBy: "due/in order of due and ref", build: asking(faults{
		due: change(func(_ store.DueQuery, got []store.Record) []store.Record {
			slices.Reverse(got)
			return got
		})})},
	{fault: "orders equal due times by sequence first",
		caughtBy: "due/in order of due and ref", build: asking(faults{
			due: change(func(_ store.DueQuery, got []store.Record) []store.Record {
				slices.SortStableFunc(got, func(a, b store.Record) int {
					return cmp.Or(cmp.Compare(a.State.Due, b.State.Due), cmp.Compare(a.Seq, b.Seq))
				})
				return got
			})})},
	{fault: "takes Until as exclusive", caughtBy: "due/until is inclusive", build: asking(faults{
		due: ask[store.DueQuery, []store.Record](func(q store.DueQuery) store.DueQuery { q.Until--; return q })})},
	{fault: "takes the due cursor as inclusive", caughtBy: "due/the cursor is exclusive",
		build: asking(faults{due: inclusiveDue})},
	{fault: "compares only the time of the due cursor",
		caughtBy: "due/pages give every record once", build: asking(faults{
			due: ask[store.DueQuery, []store.Record](func(q store.DueQuery) store.DueQuery {
				if q.After != (store.Cursor{}) {
					q.After.Ref = store.Ref{Key: carillon.Key{Namespace: "\xff"}}
				}
				return q
			})})},
	{fault: "begins at 1970", caughtBy: "due/the zero cursor is before everything", build: asking(faults{
		due: change(func(_ store.DueQuery, got []store.Record) []store.Record {
			return slices.DeleteFunc(got, func(r store.Record) bool { return r.State.Due < 0 })
		})})},
	{fault: "mixes the priorities", caughtBy: "due/one priority", build: asking(faults{
		due: func(q store.DueQuery, next func(store.DueQuery) ([]store.Record, error)) ([]store.Record, error) {
			var out []store.Record
			for q.Priority = range 4 {
				got, err := next(q)
				if err != nil {
					return nil, err
				}
				out = append(out, got...)
			}
			return out, nil
		}})},
	{fault: "pages Due by offset", caughtBy: "due/pages stand writes between them", build: pagesByOffset},
	{fault: "leaves stale due entries", caughtBy: "due/a rewrite replaces the entry", build: staleDue},
	{fault: "leaves a deleted job in the due index", caughtBy: "batch/a delete leaves nothing", build: staleDue},
	{fault: "counts all partitions as the first",
		caughtBy: "count/what is staged, by queue, and the oldest", build: asking(faults{
			counts: func(each []store.Counts) {
				for i := range each {
					if i > 0 {
						each[0].Add(each[i])
						each[i] = store.NewCounts()
					}
				}
			}})},
	{fault: "does not count what is staged",
		caughtBy: "count/what is staged, by queue, and the oldest", build: asking(faults{
			count: func(c *store.Counts) { clear(c.Staged) }})},
	{fault: "takes the first that is staged for the oldest",
		caughtBy: "count/what is staged, by queue, and the oldest", build: asking(faults{
			count: func(c *store.Counts) {
				for queue, s := range c.Staged {
					s.Oldest++
					c.Staged[queue] = s
				}
			}})},
	{fault: "counts the dead of all namespaces as one's",
		caughtBy: "count/what is dead, by namespace", build: asking(faults{
			count: func(c *store.Counts) {
				sum := 0
				for _, n := range c.Dead {
					sum += n
				}
				for namespace := range c.Dead {
					c.Dead[namespace] = sum
				}
			}})},
	{fault: "counts what has left", caughtBy: "count/what has left is not counted", build: asking(faults{
		count: func(c *store.Counts) {
			for namespace := range c.Dead {
				c.Dead[namespace]++
			}
		}})},
	{fault: "counts a phase that jobs have left", caughtBy: "count/jobs by phase, and all jobs", build: asking(faults{
		count: func(c *store.Counts) {
			if c.Phases[carillon.PhaseRunning] > 0 {
				c.Phases[carillon.PhaseRunning]++
			}
		}})},
	{fault: "counts jobs twice that have a pending run", caughtBy: "count/jobs by phase, and all jobs",
		build: asking(faults{countJobs: func(each []int) {
			for i := range each {
				each[i] *= 2
			}
		}})},
	{fault: "ignores MaxSpec", caughtBy: "due/long specs are left out", build: asking(faults{
		due: ask[store.DueQuery, []store.Record](func(q store.DueQuery) store.DueQuery {
			q.MaxSpec = 0
			return q
		})})},
	{fault: "leaves out a spec of just MaxSpec", caughtBy: "due/long specs are left out", build: asking(faults{
		due: ask[store.DueQuery, []store.Record](func(q store.DueQuery) store.DueQuery {
			q.MaxSpec = max(0, q.MaxSpec-1)
			return q
		})})},
	{fault: "leaves stale staged entries", caughtBy: "staged/a rewrite replaces the entry", build: staleStaged},
	{fault: "orders staged records by due",
		caughtBy: "staged/in order of priority, run due and ref", build: asking(faults{
			staged: change(func(_ store.StagedQuery, got []store.Record) []store.Record {
				slices.SortStableFunc(got, func(a, b store.Record) int {
					return cmp.Compare(a.State.Due, b.State.Due)*2 + a.Compare(b.Ref)
				})
				return got
			})})},
	{fault: "ignores the priority of the staged cursor",
		caughtBy: "staged/pages give every record once", build: asking(faults{
			staged: ask[store.StagedQuery, []store.Record](func(q store.StagedQuery) store.StagedQuery {
				q.After.Priority = 0
				return q
			})})},
	{fault: "finds a queue by its prefix", caughtBy: "staged/one queue", build: asking(faults{
		staged: func(q store.StagedQuery, next func(store.StagedQuery) ([]store.Record, error)) ([]store.Record, error) {
			longer, _ := next(store.StagedQuery{Queue: q.Queue + "/b", Limit: q.Limit})
			got, err := next(q)
			return append(got, longer...), err
		}})},
	{fault: "forgets that a staged record may be due",
		caughtBy: "staged/a staged record may be due as well", build: asking(faults{
			due: change(func(_ store.DueQuery, got []store.Record) []store.Record {
				return slices.DeleteFunc(got, func(r store.Record) bool { return r.State.Phase == carillon.PhaseStaged })
			})})},
	{fault: "loses a run that moves between records", caughtBy: "live/a run moves from one record to another",
		build: liveIndex},
	{fault: "finds a run by any sequence",
		caughtBy: "live/every part of the identity counts", build: asking(faults{
			live: func(id store.RunID, next func(store.RunID) (*store.Ref, error)) (*store.Ref, error) {
				for id.Seq = range 10 {
					if ref, err := next(id); ref != nil || err != nil {
						return ref, err
					}
				}
				return nil, nil
			}})},
	{fault: "finds runs that ended", caughtBy: "live/a rewrite replaces the entry", build: staleLive},
	{fault: "drops the phase filter", caughtBy: "list/by phase", build: asking(faults{
		list: ask[store.ListQuery, []store.Record](func(q store.ListQuery) store.ListQuery {
			q.Phase = nil
			return q
		})})},
	{fault: "filters after it has cut to the limit", caughtBy: "list/all filters at once",
		build: asking(faults{list: filtersLate})},
	{fault: "takes After as inclusive", caughtBy: "list/pages give every job once",
		build: asking(faults{list: inclusiveList})},
	{fault: "takes the prefix for a folder", caughtBy: "list/by prefix", build: asking(faults{
		list: change(func(q store.ListQuery, got []store.Record) []store.Record {
			return slices.DeleteFunc(got, func(r store.Record) bool {
				return q.Prefix != "" && r.Name != q.Prefix &&
					!strings.HasPrefix(r.Name, strings.TrimSuffix(q.Prefix, "/")+"/")
			})
		})})},
	{fault: "lists pending runs", caughtBy: "list/never pending runs", build: listsPending},
	{fault: "orders names by their folders", caughtBy: "list/in order of name", build: asking(faults{
		list: change(func(_ store.ListQuery, got []store.Record) []store.Record {
			slices.SortFunc(got, func(a, b store.Record) int {
				return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
			})
			return got
		})})},
	{fault: "lists namespaces that begin alike", caughtBy: "list/one namespace",
		build: asking(faults{list: namespacesAlike})},
	{fault: "lists namespaces of either case", caughtBy: "list/one namespace",
		build: asking(faults{list: namespacesFolded})},
	{fault: "orders namespaces of either case together", caughtBy: "list/all namespaces", build: asking(faults{
		list: change(func(_ store.ListQuery, got []store.Record) []store.Record {
			slices.SortStableFunc(got, func(a, b store.Record) int {
				return cmp.Compare(strings.ToLower(a.Namespace), strings.ToLower(b.Namespace))
			})
			return got
		})})},
	{fault: "lists all jobs of each namespace", caughtBy: "list/the first job of each namespace",
		build: asking(faults{list: ask[store.ListQuery, []store.Record](func(q store.ListQuery) store.ListQuery {
			q.FirstOfEach = false
			return q
		})})},
	{fault: "begins with the namespace that it is to begin after", caughtBy: "list/the first job of each namespace",
		build: asking(faults{list: ask[store.ListQuery, []store.Record](func(q store.ListQuery) store.ListQuery {
			if q.FirstOfEach && q.After != "" {
				q.After = q.After[:len(q.After)-1]
			}
			return q
		})})},
	{fault: "mixes the kinds of metadata records",
		caughtBy: "metadata/in order of key, one kind", build: asking(faults{
			metaRecords: func(q store.MetaQuery, next func(store.MetaQuery) ([]store.MetaRecord, error)) ([]store.MetaRecord, error) {
				got, err := next(q)
				q.Kind++
				more, _ := next(q)
				return append(got, more...), err
			}})},
	{fault: "drops the prefix of metadata records",
		caughtBy: "metadata/by prefix, after a key, in pages", build: asking(faults{
			metaRecords: ask[store.MetaQuery, []store.MetaRecord](func(q store.MetaQuery) store.MetaQuery {
				q.Prefix = ""
				return q
			})})},
}

func inclusiveDue(q store.DueQuery, next func(store.DueQuery) ([]store.Record, error)) ([]store.Record, error) {
	after := q.After
	q.After.Due--
	got, err := next(q)
	return slices.DeleteFunc(got, func(r store.Record) bool {
		return cmp.Or(cmp.Compare(r.State.Due, after.Due), r.Compare(after.Ref)) < 0
	}), err
}

// pagesByOffset knows a cursor only as the place that it had when it was handed out.
func pagesByOffset(*memory.Store) faults {
	place := map[store.Cursor]int{}
	return faults{due: func(q store.DueQuery, next func(store.DueQuery) ([]store.Record, error)) ([]store.Record, error) {
		from, limit := place[q.After], q.Limit
		q.After, q.Limit = store.Cursor{}, plenty
		got, err := next(q)
		for i, r := range got {
			place[store.Cursor{Due: r.State.Due, Ref: r.Ref}] = i + 1
		}
		got = got[min(from, len(got)):]
		return got[:min(limit, len(got))], err
	}}
}

// withStale adds what the index still holds of old versions.
func withStale(old, got []store.Record, holds func(r store.Record) bool) []store.Record {
	for _, r := range old {
		fresh := slices.ContainsFunc(got, func(x store.Record) bool { return x.Ref == r.Ref })
		if holds(r) && !fresh {
			r.Exists = true
			got = append(got, r)
		}
	}
	return got
}

func staleDue(*memory.Store) faults {
	var old []store.Record
	return faults{apply: staleRecords(&old), due: change(func(q store.DueQuery, got []store.Record) []store.Record {
		return withStale(old, got, func(r store.Record) bool {
			return r.State.Due != 0 && r.State.Due <= q.Until && r.State.Priority == q.Priority
		})
	})}
}

func staleStaged(*memory.Store) faults {
	var old []store.Record
	return faults{apply: staleRecords(&old), staged: change(func(q store.StagedQuery, got []store.Record) []store.Record {
		return withStale(old, got, func(r store.Record) bool {
			return r.State.Phase == carillon.PhaseStaged && r.State.Queue == q.Queue
		})
	})}
}

func staleLive(*memory.Store) faults {
	var old []store.Record
	return faults{apply: staleRecords(&old),
		live: func(id store.RunID, _ func(store.RunID) (*store.Ref, error)) (*store.Ref, error) {
			for _, r := range slices.Backward(old) {
				if r.State.Run.Live && r.State.Identity(int(id.Partition)) == id {
					return &r.Ref, nil
				}
			}
			return nil, nil
		}}
}

func filtersLate(q store.ListQuery, next func(store.ListQuery) ([]store.Record, error)) ([]store.Record, error) {
	phase := q.Phase
	q.Phase = nil
	got, err := next(q)
	return slices.DeleteFunc(got, func(r store.Record) bool { return phase != nil && r.State.Phase != *phase }), err
}

func inclusiveList(q store.ListQuery, next func(store.ListQuery) ([]store.Record, error)) ([]store.Record, error) {
	after, limit := q.After, q.Limit
	q.After, q.Limit = "", plenty
	got, err := next(q)
	got = slices.DeleteFunc(got, func(r store.Record) bool { return r.Name < after })
	return got[:min(limit, len(got))], err
}

func listsPending(m *memory.Store) faults {
	return faults{list: change(func(q store.ListQuery, got []store.Record) []store.Record {
		refs := []store.Ref{}
		for _, r := range got {
			r.Seq = 1
			refs = append(refs, r.Ref)
		}
		pending, _ := at(m, 3).Read(context.Background(), refs)
		got = append(got, slices.DeleteFunc(pending, func(r store.Record) bool { return !r.Exists })...)
		slices.SortFunc(got, func(a, b store.Record) int { return a.Compare(b.Ref) })
		return got[:min(q.Limit, len(got))]
	})}
}

func namespacesFolded(q store.ListQuery,
	next func(store.ListQuery) ([]store.Record, error)) ([]store.Record, error) {
	namespace := q.Namespace
	q.Namespace, q.After = "", ""
	got, err := next(q)
	return slices.DeleteFunc(got, func(r store.Record) bool {
		return !strings.EqualFold(r.Namespace, namespace)
	}), err
}

func namespacesAlike(q store.ListQuery,
	next func(store.ListQuery) ([]store.Record, error)) ([]store.Record, error) {
	namespace := q.Namespace
	q.Namespace, q.After = "", ""
	got, err := next(q)
	return slices.DeleteFunc(got, func(r store.Record) bool {
		return !strings.HasPrefix(r.Namespace, namespace)
	}), err
}

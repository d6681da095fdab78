package storetest_test

import (
	"cmp"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
)

type (
	listNext = func(store.ListQuery) ([]store.Record, error)
	askRuns  = func(q store.RunQuery) store.RunQuery
	askList  = func(q store.ListQuery) store.ListQuery
)

// brokenLists are stores whose lists by phase, of pending runs, or of finished runs by status are wrong.
var brokenLists = []broken{
	{fault: "lists pending runs among the jobs of a phase",
		caughtBy: "phases/jobs of one phase, and not their pending runs", build: askedList(func(q store.ListQuery) store.ListQuery {
			q.Pending = q.Pending || q.Phase != nil
			return q
		})},
	{fault: "leaves pending runs out of a phase", caughtBy: "phases/pending runs with the jobs, in the order of refs",
		build: askedList(func(q store.ListQuery) store.ListQuery {
			q.Pending = q.Pending && q.Phase == nil
			return q
		})},
	{fault: "lists the jobs of a phase before its pending runs",
		caughtBy: "phases/pending runs with the jobs, in the order of refs", build: asking(faults{
			list: change(func(_ store.ListQuery, got []store.Record) []store.Record {
				slices.SortStableFunc(got, func(a, b store.Record) int {
					return cmp.Compare(min(a.Seq, 1), min(b.Seq, 1))
				})
				return got
			})})},
	{fault: "has no list of those that are scheduled", caughtBy: "phases/pending runs with the jobs, in the order of refs",
		build: asking(faults{list: change(func(q store.ListQuery, got []store.Record) []store.Record {
			if q.Phase != nil && *q.Phase == carillon.PhaseScheduled {
				return nil
			}
			return got
		})})},
	{fault: "lists a phase of all namespaces", caughtBy: "phases/all namespaces, or one", build: asking(faults{
		list: func(q store.ListQuery, next listNext) ([]store.Record, error) {
			if q.Phase != nil && q.After == "" {
				q.Namespace = ""
			}
			return next(q)
		}})},
	{fault: "goes on after a job, not after a run of it", caughtBy: "phases/pages give every record once",
		build: askedList(func(q store.ListQuery) store.ListQuery {
			if q.Pending && q.AfterSeq > 0 {
				q.AfterSeq = 1<<63 - 1
			}
			return q
		})},
	{fault: "begins again with the job that it goes on after", caughtBy: "phases/pages stand writes between them",
		build: asking(faults{list: func(q store.ListQuery, next listNext) ([]store.Record, error) {
			if q.Pending && q.AfterSeq > 0 {
				q.AfterSeq--
			}
			return next(q)
		}})},
	{fault: "leaves stale entries in the lists by phase", caughtBy: "phases/a rewrite replaces the entry",
		build: stalePhases},
	{fault: "loses what stays in its phase", caughtBy: "phases/a rewrite replaces the entry", build: losesPhases},
	{fault: "ignores MaxSpec in the lists by phase", caughtBy: "phases/long specs are left out",
		build: askedList(func(q store.ListQuery) store.ListQuery {
			q.MaxSpec = 0
			return q
		})},
	{fault: "lists the pending runs of names that begin alike", caughtBy: "pending/of one job, be it there or not",
		build: asking(faults{list: func(q store.ListQuery, next listNext) ([]store.Record, error) {
			if q.PendingOf == nil {
				return next(q)
			}
			return next(store.ListQuery{Namespace: q.PendingOf.Namespace, Prefix: q.PendingOf.Name, Pending: true,
				Limit: q.Limit})
		}})},
	{fault: "lists the job with its pending runs", caughtBy: "pending/of one job, be it there or not",
		build: jobWithItsRuns},
	{fault: "cuts the lists of jobs and pending runs off each for itself", caughtBy: "pending/of all jobs, in the order of refs",
		build: asking(faults{list: func(q store.ListQuery, next listNext) ([]store.Record, error) {
			limit := q.Limit
			if q.Pending {
				q.Limit = plenty
			}
			got, err := next(q)
			return got[:min(len(got), limit+min(limit, 1))], err
		}})},
	{fault: "lists dead runs whatever is asked for", caughtBy: "ended/by status, newest finished first",
		build: askedRuns(func(q store.RunQuery) store.RunQuery {
			if q.Status != nil && q.Job == nil && q.Status.Finished() {
				q.Status = new(carillon.RunDead)
			}
			return q
		})},
	{fault: "lists the runs of a status of any namespace", caughtBy: "ended/one namespace", build: endedOfAll},
	{fault: "takes Until as inclusive", caughtBy: "ended/between two times",
		build: askedRuns(func(q store.RunQuery) store.RunQuery {
			if q.Until != 0 {
				q.Until++
			}
			return q
		})},
	{fault: "takes Since as exclusive", caughtBy: "ended/between two times",
		build: askedRuns(func(q store.RunQuery) store.RunQuery {
			if q.Since > 0 && q.Since < 1<<62 {
				q.Since++
			}
			return q
		})},
	{fault: "goes on before the bound", caughtBy: "ended/between two times",
		build: askedRuns(func(q store.RunQuery) store.RunQuery {
			if q.After != nil {
				q.Until = 0
			}
			return q
		})},
	{fault: "ignores the bounds of a job's runs", caughtBy: "ended/of a job between two times",
		build: askedRuns(func(q store.RunQuery) store.RunQuery {
			if q.Job != nil {
				q.Since, q.Until = 0, 0
			}
			return q
		})},
	{fault: "goes on among ended runs after a time, not after a run", caughtBy: "ended/pages give every run once",
		build: asking(faults{runs: skipsTies})},
	{fault: "pages ended runs by offset", caughtBy: "ended/pages stand writes between them", build: runsByOffset},
	{fault: "leaves what has left in the lists by status", caughtBy: "ended/what has left is not listed",
		build: staleEnded},
	{fault: "lists a run by its first end", caughtBy: "ended/a run with another end is listed once", build: staleEnded},
	{fault: "makes do without a status", caughtBy: "ended/a list needs the status",
		build: askedRuns(func(q store.RunQuery) store.RunQuery {
			if q.ID == nil && q.Job == nil && (q.Status == nil || !q.Status.Finished()) {
				q.Status = new(carillon.RunDead)
			}
			return q
		})},
}

func askedList(f askList) func(*memory.Store) faults {
	return asking(faults{list: ask[store.ListQuery, []store.Record](f)})
}

func askedRuns(f askRuns) func(*memory.Store) faults {
	return asking(faults{runs: ask[store.RunQuery, []store.RunRecord](f)})
}

// stalePhases lists a record in each phase that it ever was in.
func stalePhases(*memory.Store) faults {
	var old []store.Record
	return faults{apply: staleRecords(&old), list: change(func(q store.ListQuery, got []store.Record) []store.Record {
		return withStale(old, got, func(r store.Record) bool {
			return q.Phase != nil && *q.Phase != carillon.PhaseScheduled && r.State.Phase == *q.Phase
		})
	})}
}

// losesPhases removes the entry of a record that is written again, and adds none if the phase is the same.
func losesPhases(*memory.Store) faults {
	phases, lost := map[store.Ref]carillon.Phase{}, map[store.Ref]bool{}
	f := onBatch(func(b *store.Batch) {
		for _, r := range b.Puts {
			was, ok := phases[r.Ref]
			lost[r.Ref] = ok && was == r.State.Phase
			phases[r.Ref] = r.State.Phase
		}
	})
	f.list = change(func(q store.ListQuery, got []store.Record) []store.Record {
		return slices.DeleteFunc(got, func(r store.Record) bool {
			return q.Phase != nil && *q.Phase != carillon.PhaseScheduled && lost[r.Ref]
		})
	})
	return f
}

func jobWithItsRuns(*memory.Store) faults {
	return faults{list: func(q store.ListQuery, next listNext) ([]store.Record, error) {
		if q.PendingOf == nil || q.AfterSeq > 0 {
			return next(q)
		}
		of := *q.PendingOf
		job, err := next(store.ListQuery{Namespace: of.Namespace, Prefix: of.Name, Limit: 1})
		if err != nil {
			return nil, err
		}
		got, err := next(q)
		job = slices.DeleteFunc(job, func(r store.Record) bool { return r.Key != of })
		all := slices.Concat(job, got)
		return all[:min(len(all), q.Limit)], err
	}}
}

// endedOfAll lists the runs of all namespaces that it has seen.
func endedOfAll(*memory.Store) faults {
	seen := map[string]bool{}
	f := onBatch(func(b *store.Batch) {
		for _, r := range b.Runs {
			seen[r.Key.Namespace] = true
		}
	})
	f.runs = func(q store.RunQuery, next runsNext) ([]store.RunRecord, error) {
		if q.ID != nil || q.Job != nil {
			return next(q)
		}
		var out []store.RunRecord
		for q.Namespace = range seen {
			got, err := next(q)
			if err != nil {
				return nil, err
			}
			out = append(out, got...)
		}
		return out, nil
	}
	return f
}

// staleEnded lists a run by each end that it ever had.
func staleEnded(*memory.Store) faults {
	ends := map[string]store.RunRecord{}
	f := onBatch(func(b *store.Batch) {
		for _, r := range b.Runs {
			ends[string(codec.AppendRun(nil, &r))] = r
		}
	})
	f.runs = change(func(q store.RunQuery, got []store.RunRecord) []store.RunRecord {
		if q.ID != nil || q.Job != nil || q.After != nil {
			return got
		}
		for text, r := range ends {
			there := slices.ContainsFunc(got, func(g store.RunRecord) bool {
				return string(codec.AppendRun(nil, &g)) == text
			})
			if !there && r.Status == *q.Status && r.Key.Namespace == q.Namespace && q.Within(r.Finished) {
				got = append(got, r)
			}
		}
		return got
	})
	return f
}

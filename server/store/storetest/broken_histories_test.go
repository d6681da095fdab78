package storetest_test

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
)

type runsNext = func(store.RunQuery) ([]store.RunRecord, error)

// brokenHistories are stores that keep finished runs wrongly.
var brokenHistories = []broken{
	{fault: "returns the oldest runs first",
		caughtBy: "runs/newest scheduled time first", build: asking(faults{runs: sortedRuns(
			func(a, b store.RunRecord) int { return cmp.Compare(a.ID.Scheduled, b.ID.Scheduled) })})},
	{fault: "orders runs by their end", caughtBy: "runs/newest scheduled time first", build: asking(faults{runs: sortedRuns(
		func(a, b store.RunRecord) int { return cmp.Compare(b.Finished, a.Finished) })})},
	{fault: "orders dead runs by schedule", caughtBy: "runs/the dead of a namespace, newest finished first",
		build: asking(faults{runs: sortedRuns(
			func(a, b store.RunRecord) int { return cmp.Compare(b.ID.Scheduled, a.ID.Scheduled) })})},
	{fault: "loses who ran it", caughtBy: "runs/all of a run is read back", build: func(*memory.Store) faults {
		return onRuns(func(r *store.RunRecord) { r.Worker = "" })
	}},
	{fault: "loses the spec of a dead run",
		caughtBy: "runs/all of a run is read back", build: func(*memory.Store) faults {
			return onRuns(func(r *store.RunRecord) { r.Spec = nil })
		}},
	{fault: "keeps the first of an identity", caughtBy: "runs/the same identity replaces", build: keepsFirst},
	{fault: "leaves stale entries among the dead", caughtBy: "runs/the same identity replaces",
		build: staleDead},
	{fault: "drops the status filter", caughtBy: "runs/by status", build: asking(faults{
		runs: ask[store.RunQuery, []store.RunRecord](func(q store.RunQuery) store.RunQuery {
			if q.Job != nil {
				q.Status = nil
			}
			return q
		})})},
	{fault: "filters runs after it has cut to the limit", caughtBy: "runs/by status", build: asking(faults{
		runs: func(q store.RunQuery, next runsNext) ([]store.RunRecord, error) {
			status := q.Status
			if q.Job == nil {
				return next(q)
			}
			q.Status = nil
			got, err := next(q)
			return slices.DeleteFunc(got, func(r store.RunRecord) bool {
				return status != nil && r.Status != *status
			}), err
		}})},
	{fault: "takes the run cursor as inclusive", caughtBy: "runs/pages give every run once",
		build: inclusiveRuns},
	{fault: "goes on after a time, not after a run", caughtBy: "runs/pages give every run once",
		build: asking(faults{runs: skipsTies})},
	{fault: "goes on among the dead after a time, not after a run",
		caughtBy: "runs/dead pages give every run once", build: asking(faults{runs: skipsTies})},
	{fault: "pages runs by offset", caughtBy: "runs/pages stand writes between them", build: runsByOffset},
	{fault: "finds a run by its time alone", caughtBy: "runs/by id", build: asking(faults{
		runs: func(q store.RunQuery, next runsNext) ([]store.RunRecord, error) {
			if q.ID != nil {
				id := *q.ID
				id.Cause, id.Seq, q.ID = 0, 0, &id
			}
			return next(q)
		}})},
	{fault: "finds the runs of names that begin alike", caughtBy: "runs/of one job", build: runsAlike},
	{fault: "mixes the dead of all namespaces",
		caughtBy: "runs/the dead of a namespace, newest finished first", build: deadOfAll},
	{fault: "deletes the history with the job",
		caughtBy: "runs/the history outlives the job", build: func(*memory.Store) faults {
			return onBatch(func(b *store.Batch) {
				for _, ref := range b.Deletes {
					b.Trims = append(slices.Clone(b.Trims), store.Trim{Key: ref.Key})
				}
			})
		}},
	{fault: "ignores redrives", caughtBy: "runs/a redriven run leaves the history", build: func(*memory.Store) faults {
		return onBatch(func(b *store.Batch) { b.Redrive = nil })
	}},
	{fault: "keeps one run too many", caughtBy: "retention/a trim keeps the newest of a job", build: func(*memory.Store) faults {
		return onBatch(func(b *store.Batch) {
			b.Trims = slices.Clone(b.Trims)
			for i := range b.Trims {
				b.Trims[i].Keep++
			}
		})
	}},
	{fault: "trims before it adds", caughtBy: "retention/a trim counts the runs of its batch",
		build: trimsFirst},
	{fault: "expires before it adds", caughtBy: "retention/expire counts the runs of its batch",
		build: expiresFirst},
	{fault: "counts dead runs when it trims",
		caughtBy: "retention/a trim neither counts nor removes dead runs", build: trimCountsDead},
	{fault: "trims dead runs", caughtBy: "retention/a trim neither counts nor removes dead runs",
		build: trimsDead},
	{fault: "expires exclusively", caughtBy: "retention/expire removes what has ended, inclusive",
		build: onExpire(func(e *store.Expire) { e.Before-- })},
	{fault: "never expires dead runs", caughtBy: "retention/expire removes what has ended, inclusive",
		build: sparesDead},
	{fault: "counts dead runs among the most", caughtBy: "retention/expire keeps the newest",
		build: mostCountsDead},
	{fault: "does not bound the history", caughtBy: "retention/expire keeps the newest",
		build: onExpire(func(e *store.Expire) { e.Most = plenty })},
	{fault: "expires any number at once", caughtBy: "retention/expire removes at most so many, oldest first",
		build: onExpire(func(e *store.Expire) { e.Limit = plenty })},
	{fault: "leaves stale entries in the age index", caughtBy: "retention/a replaced run expires once",
		build: staleAge},
}

func sortedRuns(order func(a, b store.RunRecord) int) hook[store.RunQuery, []store.RunRecord] {
	return change(func(_ store.RunQuery, got []store.RunRecord) []store.RunRecord {
		slices.SortStableFunc(got, order)
		return got
	})
}

// onRuns changes every run before it is stored.
func onRuns(f func(r *store.RunRecord)) faults {
	return onBatch(func(b *store.Batch) {
		b.Runs = slices.Clone(b.Runs)
		for i := range b.Runs {
			f(&b.Runs[i])
		}
	})
}

func onExpire(f func(e *store.Expire)) func(*memory.Store) faults {
	return func(*memory.Store) faults {
		return onBatch(func(b *store.Batch) {
			if b.Expire != nil {
				e := *b.Expire
				f(&e)
				b.Expire = &e
			}
		})
	}
}

func keepsFirst(*memory.Store) faults {
	seen := map[store.RunID]bool{}
	return onBatch(func(b *store.Batch) {
		b.Runs = slices.DeleteFunc(slices.Clone(b.Runs), func(r store.RunRecord) bool {
			was := seen[r.ID]
			seen[r.ID] = true
			return was
		})
	})
}

func staleDead(*memory.Store) faults {
	var dead []store.RunRecord
	f := onBatch(func(b *store.Batch) {
		for _, r := range b.Runs {
			if r.Status == carillon.RunDead {
				dead = append(dead, r)
			}
		}
	})
	f.runs = change(func(q store.RunQuery, got []store.RunRecord) []store.RunRecord {
		if q.ID == nil && q.Job == nil && *q.Status == carillon.RunDead {
			got = append(got, dead...)
		}
		return got
	})
	return f
}

func inclusiveRuns(*memory.Store) faults {
	seen := map[string]store.RunRecord{}
	return faults{runs: change(func(q store.RunQuery, got []store.RunRecord) []store.RunRecord {
		if last, ok := seen[string(q.After)]; ok && q.After != nil {
			got = slices.Insert(got, 0, last)
			got = got[:min(q.Limit, len(got))]
		}
		for _, r := range got {
			seen[string(r.Cursor)] = r
		}
		return got
	})}
}

// skipsTies leaves out what has the time of the cursor.
func skipsTies(q store.RunQuery, next runsNext) ([]store.RunRecord, error) {
	if q.After == nil {
		return next(q)
	}
	last, err := codec.DecodeRun(q.After)
	if err != nil {
		return nil, err
	}
	limit := q.Limit
	q.Limit = plenty
	got, err := next(q)
	got = slices.DeleteFunc(got, func(r store.RunRecord) bool {
		return q.Job != nil && r.ID.Scheduled == last.ID.Scheduled || q.Job == nil && r.Finished == last.Finished
	})
	return got[:min(limit, len(got))], err
}

func runsByOffset(*memory.Store) faults {
	place := map[string]int{}
	return faults{runs: func(q store.RunQuery, next runsNext) ([]store.RunRecord, error) {
		from, limit := place[string(q.After)], q.Limit
		q.After, q.Limit = nil, plenty
		got, err := next(q)
		for i, r := range got {
			place[string(r.Cursor)] = i + 1
		}
		got = got[min(from, len(got)):]
		return got[:min(limit, len(got))], err
	}}
}

func runsAlike(*memory.Store) faults {
	var all []store.RunRecord
	f := onBatch(func(b *store.Batch) { all = append(all, b.Runs...) })
	f.runs = change(func(q store.RunQuery, got []store.RunRecord) []store.RunRecord {
		for _, r := range all {
			if q.Job != nil && r.Key != *q.Job && r.Key.Namespace == q.Job.Namespace &&
				strings.HasPrefix(r.Key.Name, q.Job.Name+"/") {
				got = append(got, r)
			}
		}
		return got
	})
	return f
}

func deadOfAll(*memory.Store) faults {
	namespaces := map[string]bool{}
	f := onBatch(func(b *store.Batch) {
		for _, r := range b.Runs {
			namespaces[r.Key.Namespace] = true
		}
	})
	f.runs = func(q store.RunQuery, next runsNext) ([]store.RunRecord, error) {
		if q.ID != nil || q.Job != nil {
			return next(q)
		}
		var out []store.RunRecord
		for q.Namespace = range namespaces {
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

func trimsFirst(*memory.Store) faults {
	return faults{apply: func(_ int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		rest := *b
		rest.Trims = nil
		if err := next(&store.Batch{Trims: b.Trims}); err != nil {
			return err
		}
		return next(&rest)
	}}
}

func expiresFirst(*memory.Store) faults {
	return faults{apply: func(_ int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		rest := *b
		rest.Expire = nil
		if err := next(&store.Batch{Expire: b.Expire}); err != nil {
			return err
		}
		return next(&rest)
	}}
}

// historyOf is all finished runs of a job, or with no job the dead of the suite's namespace.
func historyOf(m *memory.Store, partition int, job *carillon.Key) []store.RunRecord {
	var status *carillon.RunStatus
	if job == nil {
		status = new(carillon.RunDead)
	}
	got, _ := at(m, partition).Runs(context.Background(),
		store.RunQuery{Job: job, Namespace: "tenant-a", Status: status, Limit: plenty})
	return got
}

func trimCountsDead(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		changed := *b
		changed.Trims = slices.Clone(b.Trims)
		for i, t := range changed.Trims {
			runs := historyOf(m, partition, &t.Key)
			for _, r := range runs[:min(t.Keep, len(runs))] {
				if r.Status == carillon.RunDead {
					changed.Trims[i].Keep--
				}
			}
		}
		return next(&changed)
	}}
}

func trimsDead(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		changed := *b
		for _, t := range b.Trims {
			runs := historyOf(m, partition, &t.Key)
			for _, r := range runs[min(t.Keep, len(runs)):] {
				changed.Redrive = append(slices.Clone(changed.Redrive), store.RunRef{Key: r.Key, ID: r.ID})
			}
		}
		return next(&changed)
	}}
}

func sparesDead(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		dead := historyOf(m, partition, nil)
		if err := next(b); err != nil || b.Expire == nil {
			return err
		}
		return next(&store.Batch{Runs: dead})
	}}
}

func mostCountsDead(m *memory.Store) faults {
	return faults{apply: func(partition int, _ store.Term, b *store.Batch, next func(*store.Batch) error) error {
		changed := *b
		if b.Expire != nil {
			e := *b.Expire
			e.Most -= len(historyOf(m, partition, nil))
			changed.Expire = &e
		}
		return next(&changed)
	}}
}

// staleAge expires a run at the end that it was first given.
func staleAge(*memory.Store) faults {
	first := map[store.RunID]int64{}
	return onRuns(func(r *store.RunRecord) {
		if _, ok := first[r.ID]; !ok {
			first[r.ID] = r.Expires
		}
		r.Expires = first[r.ID]
	})
}

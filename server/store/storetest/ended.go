package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// endedCases are about the runs of a namespace by the status that they ended with.
var endedCases = []Case{
	{Name: "ended/by status, newest finished first", check: endedByStatus},
	{Name: "ended/one namespace", check: endedNamespaces},
	{Name: "ended/between two times", check: endedBetween},
	{Name: "ended/all of a partition", check: endedAll},
	{Name: "ended/of a job between two times", check: endedOfJobBetween},
	{Name: "ended/pages give every run once", check: endedPages},
	{Name: "ended/pages stand writes between them", check: endedUnderWrites},
	{Name: "ended/what has left is not listed", check: endedLess},
	{Name: "ended/a run with another end is listed once", check: endedReplaced},
	{Name: "ended/a list needs the status", check: endedNeedsStatus},
}

// statuses are those that a run can end with.
var statuses = []carillon.RunStatus{carillon.RunSucceeded, carillon.RunFailed, carillon.RunDead,
	carillon.RunCancelled, carillon.RunSkipped}

func endedByStatus(e *env) {
	s := e.own(3)
	for i, name := range oddNames {
		var runs []store.RunRecord
		for k, status := range statuses {
			r := s.run(name, int64(k*10+i*11%7), status)
			r.Finished = base + int64((i*37+k)%101) // no two of a status are equal
			runs = append(runs, r)
		}
		s.putRuns(runs...)
	}
	for k, status := range statuses {
		var want []store.RunRecord
		for i, name := range oddNames {
			r := s.run(name, int64(k*10+i*11%7), status)
			r.Finished = base + int64((i*37+k)%101)
			want = append(want, r)
		}
		slices.SortFunc(want, func(a, b store.RunRecord) int { return cmp.Compare(b.Finished, a.Finished) })
		s.wantRuns("Runs that "+status.String(), s.runs(ended(ns, status)), want...)
	}
	s.wantRuns("Runs of an unknown status", s.runs(ended(ns, carillon.RunSkipped+1)))
}

func endedNamespaces(e *env) {
	s := e.own(3)
	for i, status := range statuses {
		var all []store.RunRecord
		for _, namespace := range []string{"tenant", "tenant-a", "tenant-a-b", "tenant-aa", "tenant-b",
			"Tenant-a"} {
			r := s.run("a", int64(i), status)
			r.Key.Namespace = namespace
			r.ID = s.runID(r.Key, int64(i))
			all = append(all, r)
		}
		s.putRuns(all...)
		for _, r := range all {
			s.wantRuns(r.Key.Namespace+" "+status.String(), s.runs(ended(r.Key.Namespace, status)), r)
		}
		s.wantRuns("nobody", s.runs(ended("nobody", status)))
		s.wantRuns("no namespace", s.runs(ended("", status)))
	}
}

// between are the runs of a query from base+since up to, and without, base+until; 0 is no bound.
func (s shard) between(q store.RunQuery, since, until int64) []store.RunRecord {
	s.Helper()
	if since != 0 {
		q.Since = base + since
	}
	if until != 0 {
		q.Until = base + until
	}
	return s.runs(q)
}

// endedAll: the runs of all namespaces and jobs, each once, whatever they ended with.
func endedAll(e *env) {
	s := e.own(3)
	q := store.RunQuery{All: true, Limit: plenty}
	s.wantRuns("of nothing", s.runs(q))
	want := map[store.RunID]store.RunRecord{}
	for _, namespace := range []string{"", ns, "other"} {
		for n, status := range []carillon.RunStatus{carillon.RunSucceeded, carillon.RunFailed, carillon.RunDead,
			carillon.RunSkipped, carillon.RunCancelled} {
			for _, name := range []string{"a", "b"} {
				r := s.run(name, int64(n), status)
				r.Key.Namespace = namespace
				r.ID = s.runID(r.Key, int64(n))
				want[r.ID] = r
				s.putRuns(r)
			}
		}
	}
	e.own(4).putRuns(s.run("a", 1, carillon.RunDead)) // of another partition
	for _, limit := range []int{1, 7, plenty} {
		q.Limit, q.After = limit, nil
		left := maps.Clone(want)
		for {
			page := s.runs(q)
			if len(page) > limit {
				e.Fatalf("a page of %d has %d", limit, len(page))
			}
			for _, r := range page {
				s.wantRuns("all", []store.RunRecord{r}, left[r.ID])
				delete(left, r.ID)
			}
			if len(page) < limit {
				break
			}
			q.After = page[len(page)-1].Cursor
		}
		if len(left) > 0 {
			e.Errorf("by %d: %d of %d are missing", limit, len(left), len(want))
		}
	}
}

func endedBetween(e *env) {
	s := e.own(3)
	var want []store.RunRecord // two of each time from 1 to 9, newest first
	for n := int64(9); n > 0; n-- {
		for seq := range uint64(2) {
			r := s.run("a", n, carillon.RunFailed)
			r.ID.Seq, r.Finished = seq, base+n
			want = append(want, r)
			r.ID.Scheduled += 1000
			r.Status = carillon.RunSucceeded
			s.putRuns(r)
		}
	}
	s.putRuns(want...)
	for since := range int64(12) {
		for until := range int64(12) {
			var in []store.RunRecord
			for _, r := range want {
				if n := r.Finished - base; n >= since && (until == 0 || n < until) {
					in = append(in, r)
				}
			}
			q := ended(ns, carillon.RunFailed)
			s.wantRuns(fmt.Sprint("since ", since, " until ", until), s.between(q, since, until), in...)
			q.Limit = 3
			s.wantRuns("a page", s.between(q, since, until), in[:min(3, len(in))]...)
			if len(in) > 3 {
				q.After = s.between(q, since, until)[2].Cursor
				s.wantRuns("the next page", s.between(q, since, until), in[3:min(6, len(in))]...)
			}
		}
	}
	q := ended(ns, carillon.RunFailed)
	q.Since, q.Until = math.MinInt64, math.MaxInt64
	s.wantRuns("between any times", s.runs(q), want...)
	q.Since = math.MaxInt64
	s.wantRuns("since the end of time", s.runs(q))
	q.Since, q.Until = 0, math.MinInt64
	s.wantRuns("until the beginning of time", s.runs(q))
	q.Until, q.After = base+5, s.between(ended(ns, carillon.RunFailed), 0, 0)[1].Cursor
	s.wantRuns("a cursor from before the bound", s.runs(q), want[10:]...)
}

func endedOfJobBetween(e *env) {
	s := e.own(3)
	for n := range int64(6) {
		r := s.run("a", n, carillon.RunSucceeded)
		r.Finished = base + 100 - n // the newest by schedule finished first
		s.putRuns(r, s.run("b", n, carillon.RunSucceeded))
	}
	q := store.RunQuery{Job: new(key("a")), Limit: plenty}
	s.wantTimes("since", s.scheduled(s.between(q, 97, 0)), 3, 2, 1, 0)
	s.wantTimes("until", s.scheduled(s.between(q, 0, 97)), 5, 4)
	q.Limit = 1
	page := s.between(q, 97, 99)
	s.wantTimes("a page", s.scheduled(page), 3)
	q.After = page[0].Cursor
	s.wantTimes("the next page", s.scheduled(s.between(q, 97, 99)), 2)
}

func endedPages(e *env) {
	s := e.own(3)
	for i, status := range statuses {
		crowd := s.crowd(status)
		for k := range crowd {
			crowd[k].ID.Scheduled += int64(i) << 20 // runs of their own
		}
		for _, name := range oddNames {
			crowd = append(crowd, s.run(name, 3000+int64(i), status))
		}
		s.putRuns(crowd...)
		q := ended(ns, status)
		whole := s.runs(q)
		e.wantOrdered(whole, crowd, func(r store.RunRecord) int64 { return r.Finished })
		checkPages(e, whole, canonRun, func(after *store.RunRecord, limit int) []store.RunRecord {
			if q.Limit, q.After = limit, nil; after != nil {
				q.After = after.Cursor
			}
			return s.runs(q)
		})
	}
}

func endedUnderWrites(e *env) {
	s := e.own(3)
	run := func(n int64) store.RunRecord { return s.run("a", n, carillon.RunFailed) }
	for n := range int64(8) {
		s.putRuns(run(n))
	}
	q := ended(ns, carillon.RunFailed)
	q.Limit = 2
	page := s.runs(q)
	s.wantRuns("first page", page, run(7), run(6))
	died := s.run("a", 5, carillon.RunDead)
	last := run(6)
	last.Reason = "written again"
	s.putRuns(run(9), died, last)
	s.apply(store.Batch{Redrive: []store.RunRef{{Key: died.Key, ID: died.ID}}})
	q.After = page[1].Cursor
	page = s.runs(q)
	s.wantRuns("second page", page, run(4), run(3))
	s.apply(store.Batch{Trims: []store.Trim{{Key: key("a"), Keep: 4}}}) // 9 7 6 4
	q.After = page[1].Cursor
	s.wantRuns("third page", s.runs(q))
	q.After = nil
	s.wantRuns("from the start", s.runs(q), run(9), run(7))
}

func endedLess(e *env) {
	s := e.own(3)
	for i, status := range statuses {
		kept, expired, trimmed := s.run("a", int64(30+i), status), s.run("a", int64(20+i), status),
			s.run("a", int64(10+i), status)
		kept.Expires, expired.Expires, trimmed.Expires = math.MaxInt64, base+5, math.MaxInt64
		s.putRuns(kept, expired, trimmed)
	}
	s.apply(store.Batch{Expire: &store.Expire{Before: base + 5, Most: plenty, Limit: plenty}})
	for i, status := range statuses {
		s.wantTimes(status.String(), s.scheduled(s.runs(ended(ns, status))), int64(30+i), int64(10+i))
	}
	s.apply(store.Batch{Trims: []store.Trim{{Key: key("a"), Keep: len(statuses) - 1}}})
	for i, status := range statuses {
		if status != carillon.RunDead {
			s.wantTimes(status.String(), s.scheduled(s.runs(ended(ns, status))), int64(30+i))
		}
	}
	for _, r := range s.deadOf(ns) {
		s.apply(store.Batch{Redrive: []store.RunRef{{Key: r.Key, ID: r.ID}}})
	}
	s.apply(store.Batch{Expire: &store.Expire{Before: base, Most: 0, Limit: plenty}})
	for _, status := range statuses {
		s.wantTimes("at the end "+status.String(), s.scheduled(s.runs(ended(ns, status))))
	}
}

func endedReplaced(e *env) {
	s := e.own(3)
	for i, status := range slices.Concat(statuses, statuses) {
		r := s.run("a", 1, status)
		r.Finished = base + int64(i)*7%10
		s.putRuns(r)
		s.putRuns(r) // and again as it is
		for _, other := range statuses {
			if other == status {
				s.wantRuns(other.String(), s.runs(ended(ns, other)), r)
			} else {
				s.wantRuns(other.String(), s.runs(ended(ns, other)))
			}
		}
		r.Finished = base - int64(i)
		s.putRuns(r)
		s.wantRuns(status.String()+", finished before", s.runs(ended(ns, status)), r)
	}
}

func endedNeedsStatus(e *env) {
	s := e.own(3)
	s.putRuns(s.run("a", 1, carillon.RunDead))
	for _, status := range []*carillon.RunStatus{nil, new(carillon.RunScheduled), new(carillon.RunRetrying)} {
		if got, err := s.Runs(s.Context(), store.RunQuery{Namespace: ns, Status: status, Limit: 1}); err == nil {
			e.Errorf("with no status of finished runs: %d runs", len(got))
		}
	}
}

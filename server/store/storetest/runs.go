package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var runCases = []Case{
	{Name: "runs/all of a run is read back", check: runIsReadBack},
	{Name: "runs/newest scheduled time first", check: runsNewestFirst},
	{Name: "runs/of one job", check: runsOfOneJob},
	{Name: "runs/by id", check: runByIdentity},
	{Name: "runs/the same identity replaces", check: runReplaces},
	{Name: "runs/by status", check: runsByStatus},
	{Name: "runs/pages give every run once", check: runPages},
	{Name: "runs/pages stand writes between them", check: runsUnderWrites},
	{Name: "runs/the dead of a namespace, newest finished first", check: deadRuns},
	{Name: "runs/dead pages give every run once", check: deadPages},
	{Name: "runs/the history outlives the job", check: historyOutlivesJob},
	{Name: "runs/a redriven run leaves the history", check: redrive},
}

func runIsReadBack(e *env) {
	s := e.own(3)
	want := s.fullRun("a", 1)
	put := want
	put.Cursor = []byte("not stored")
	big := s.fullRun("big", 1)
	big.Spec, big.Response = slices.Repeat([]byte{7}, 1<<20), slices.Repeat([]byte{8}, carillon.MaxResponse)
	s.putRuns(put, big)
	s.wantRuns("Runs of a job", s.runsOf(key("a")), want)
	s.wantRuns("Runs of a job with much to keep", s.runsOf(key("big")), big)
	s.wantRuns("Runs of an id", s.runs(store.RunQuery{ID: &want.ID, Limit: 1}), want)
	big.Finished++
	s.putRuns(big)
	s.wantRuns("dead Runs", s.deadOf(ns), big, want)
	if got := s.runsOf(key("a")); len(got) == 1 && string(got[0].Cursor) == "not stored" {
		e.Error("the cursor was stored")
	}
}

func runsNewestFirst(e *env) {
	s := e.own(3)
	times := []int64{math.MaxInt64 - base, 1 << 40, 256, 255, 1, 0, -1, -base, -base - 7}
	var want []store.RunRecord
	for i, n := range times {
		r := s.run("a", n, carillon.RunSucceeded)
		r.Started, r.Finished, r.Expires, r.Due = base+int64(i), base+int64(i*7%5), base+int64(i*5%7), base
		want = append(want, r)
	}
	for _, i := range []int{4, 0, 8, 2, 6, 1, 7, 3, 5} {
		s.putRuns(want[i])
	}
	s.wantRuns("Runs", s.runsOf(key("a")), want...)
}

func runsOfOneJob(e *env) {
	s := e.own(3)
	for _, name := range oddNames {
		s.putRuns(s.run(name, 1, carillon.RunSucceeded), s.run(name, 2, carillon.RunDead))
	}
	other := s.run("a", 1, carillon.RunFailed)
	other.Key = carillon.Key{Namespace: "tenant-b", Name: "a"}
	other.ID = s.runID(other.Key, 1)
	s.putRuns(other)
	for _, name := range oddNames {
		want := []store.RunRecord{s.run(name, 2, carillon.RunDead), s.run(name, 1, carillon.RunSucceeded)}
		s.wantRuns(fmt.Sprintf("Runs of %q", name), s.runsOf(key(name)), want...)
	}
	s.wantRuns("Runs of another namespace", s.runsOf(other.Key), other)
	s.wantRuns("Runs of nobody", s.runsOf(key("nobody")))
}

func runByIdentity(e *env) {
	s := e.own(3)
	a, b := s.run("a", 1, carillon.RunSucceeded), s.run("b", 1, carillon.RunDead)
	s.putRuns(a, b)
	for _, want := range []store.RunRecord{a, b} {
		s.wantRuns("Runs of an id", s.runs(store.RunQuery{ID: &want.ID, Limit: 1}), want)
	}
	for what, id := range map[string]store.RunID{
		"scheduled": {Partition: 3, UID: a.ID.UID, Scheduled: a.ID.Scheduled + 1},
		"cause":     {Partition: 3, UID: a.ID.UID, Scheduled: a.ID.Scheduled, Cause: carillon.CauseTrigger},
		"seq":       {Partition: 3, UID: a.ID.UID, Scheduled: a.ID.Scheduled, Seq: 1},
		"uid":       {Partition: 3, UID: uidOf(a.Key, 9), Scheduled: a.ID.Scheduled},
	} {
		if got, ok := s.runByID(id); ok {
			e.Errorf("another %s finds %s", what, canonRun(got))
		}
	}
}

func runReplaces(e *env) {
	s := e.own(3)
	first := s.fullRun("a", 1)
	s.putRuns(first, s.run("a", 0, carillon.RunDead))
	second := first
	second.Status, second.Finished, second.Expires, second.Errors, second.Spec = carillon.RunSucceeded, base+
		500, base+9000, nil, nil
	s.putRuns(second)
	s.wantRuns("Runs", s.runsOf(key("a")), second, s.run("a", 0, carillon.RunDead))
	s.wantRuns("dead Runs", s.deadOf(ns), s.run("a", 0, carillon.RunDead))
	s.wantRuns("Runs of the id", s.runs(store.RunQuery{ID: &first.ID, Limit: 1}), second)
	third := second
	third.Status, third.Finished = carillon.RunDead, base-500
	s.putRuns(third)
	s.wantRuns("dead Runs again", s.deadOf(ns), s.run("a", 0, carillon.RunDead), third)
	third.Finished = base + 700
	s.putRuns(third)
	s.wantRuns("dead Runs, finished later", s.deadOf(ns), third, s.run("a", 0, carillon.RunDead))
}

func runsByStatus(e *env) {
	s := e.own(3)
	var all []store.RunRecord
	for n := int64(40); n > 0; n-- {
		all = append(all, s.run("a", n, carillon.RunSucceeded+carillon.RunStatus(n*7%5)))
	}
	s.putRuns(all...)
	for status := carillon.RunSucceeded; status <= carillon.RunSkipped; status++ {
		want := slices.DeleteFunc(slices.Clone(all), func(r store.RunRecord) bool { return r.Status != status })
		checkPages(e, want, canonRun, func(after *store.RunRecord, limit int) []store.RunRecord {
			q := store.RunQuery{Job: new(key("a")), Status: &status, Limit: limit}
			if after != nil {
				q.After = after.Cursor
			}
			return s.runs(q)
		})
	}
}

// crowd is runs of a job of which several have one scheduled time.
func (s shard) crowd(status carillon.RunStatus) []store.RunRecord {
	var out []store.RunRecord
	for n := range int64(5) {
		for seq := range uint64(4) {
			r := s.run("a", n, status)
			r.Finished = base + n // several have one finish time as well
			if seq > 0 {
				r.ID.Cause, r.ID.Seq = carillon.CauseTrigger, seq*128
			}
			out = append(out, r)
		}
		second := s.run("a", n, status)
		second.ID.UID, second.Finished = uidOf(key("a"), 2), base+n
		out = append(out, second)
	}
	return out
}

// wantOrdered checks that a whole list holds the runs of a crowd, each once, newest first by the given time.
func (e *env) wantOrdered(got, want []store.RunRecord, at func(store.RunRecord) int64) {
	e.Helper()
	if !slices.IsSortedFunc(got, func(a, b store.RunRecord) int { return cmp.Compare(at(b), at(a)) }) {
		e.Errorf("not newest first:\n%s", lines(canons(got, canonRun)))
	}
	a, b := canons(got, canonRun), canons(want, canonRun)
	slices.Sort(a)
	slices.Sort(b)
	e.wantTexts("all runs", a, b)
}

func runPages(e *env) {
	s := e.own(3)
	crowd := s.crowd(carillon.RunSucceeded)
	s.putRuns(append(crowd, s.run("aa", 1, carillon.RunFailed), s.run("A", 1, carillon.RunFailed))...)
	whole := s.runsOf(key("a"))
	e.wantOrdered(whole, crowd, func(r store.RunRecord) int64 { return r.ID.Scheduled })
	checkPages(e, whole, canonRun, func(after *store.RunRecord, limit int) []store.RunRecord {
		q := store.RunQuery{Job: new(key("a")), Limit: limit}
		if after != nil {
			q.After = after.Cursor
		}
		return s.runs(q)
	})
}

func runsUnderWrites(e *env) {
	s := e.own(3)
	run := func(n int64) store.RunRecord { return s.run("a", n, carillon.RunSucceeded) }
	for n := range int64(6) {
		s.putRuns(run(n))
	}
	q := store.RunQuery{Job: new(key("a")), Limit: 2}
	page := s.runs(q)
	s.wantRuns("first page", page, run(5), run(4))
	s.apply(store.Batch{Runs: []store.RunRecord{run(7), run(6)}, Trims: []store.Trim{{Key: key("a"), Keep: 5}}})
	dead := s.run("a", 4, carillon.RunDead)
	s.putRuns(dead)
	s.apply(store.Batch{Redrive: []store.RunRef{{Key: dead.Key, ID: dead.ID}}})
	q.After = page[1].Cursor
	s.wantRuns("second page", s.runs(q), run(3))
}

func deadRuns(e *env) {
	s := e.own(3)
	var want []store.RunRecord
	for i, name := range oddNames {
		r := s.run(name, int64(i*11%7), carillon.RunDead)
		r.Finished = base + int64(i*37%101) // no two are equal
		want = append(want, r)
		s.putRuns(r, s.run(name, 99, carillon.RunFailed))
	}
	for _, namespace := range []string{"tenant", "tenant-a-b", "tenant-aa", "tenant-b", "Tenant-a"} {
		other := s.run("a", 3, carillon.RunDead)
		other.Key.Namespace = namespace
		other.ID = s.runID(other.Key, 3)
		s.putRuns(other)
		s.wantRuns("dead Runs of "+namespace, s.deadOf(namespace), other)
	}
	slices.SortFunc(want, func(a, b store.RunRecord) int { return cmp.Compare(b.Finished, a.Finished) })
	s.wantRuns("dead Runs", s.deadOf(ns), want...)
	s.wantRuns("dead Runs of nobody", s.deadOf("nobody"))
}

func deadPages(e *env) {
	s := e.own(3)
	crowd := s.crowd(carillon.RunDead)
	for _, name := range oddNames {
		crowd = append(crowd, s.run(name, 3000, carillon.RunDead))
	}
	s.putRuns(append(crowd, s.run("alive", 1, carillon.RunFailed))...)
	whole := s.deadOf(ns)
	e.wantOrdered(whole, crowd, func(r store.RunRecord) int64 { return r.Finished })
	checkPages(e, whole, canonRun, func(after *store.RunRecord, limit int) []store.RunRecord {
		q := ended(ns, carillon.RunDead)
		q.Limit = limit
		if after != nil {
			q.After = after.Cursor
		}
		return s.runs(q)
	})
}

func historyOutlivesJob(e *env) {
	s := e.own(3)
	one, two := s.run("a", 1, carillon.RunSucceeded), s.run("a", 2, carillon.RunDead)
	s.apply(store.Batch{Puts: []store.Record{job("a")}, Runs: []store.RunRecord{one, two}})
	s.delete(jobRef("a"))
	s.wantRuns("Runs of a deleted job", s.runsOf(key("a")), two, one)
	s.wantRuns("dead Runs of a deleted job", s.deadOf(ns), two)
	s.wantNames("List", s.list(inNamespace(nil)))
}

func redrive(e *env) {
	s := e.own(3)
	a, b := s.fullRun("a", 1), s.fullRun("a", 2)
	s.putRuns(a, b)
	back := pending("a", 5, spec(a.Spec), running(a.ID.Scheduled, a.ID.Cause, a.ID.Seq), due(base))
	s.apply(store.Batch{Redrive: []store.RunRef{{Key: a.Key, ID: a.ID}}, Puts: []store.Record{back}})
	s.wantRuns("Runs", s.runsOf(key("a")), b)
	s.wantRuns("dead Runs", s.deadOf(ns), b)
	s.wantLive("the redriven run", a.ID, back.Ref)
	if got, ok := s.runByID(a.ID); ok {
		e.Errorf("the redriven run is still in the history: %s", canonRun(got))
	}
	s.apply(store.Batch{Redrive: []store.RunRef{{Key: a.Key, ID: a.ID},
		{Key: key("nobody"), ID: s.runID(key("nobody"), 1)}}})
	s.wantRuns("Runs after a redrive of what is not there", s.runsOf(key("a")), b)
	s.apply(store.Batch{Deletes: []store.Ref{back.Ref}, Runs: []store.RunRecord{a}})
	s.wantRuns("Runs after it died again", s.runsOf(key("a")), b, a)
}

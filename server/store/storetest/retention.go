package storetest

import (
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var retentionCases = []Case{
	{Name: "retention/a trim keeps the newest of a job", check: trimKeepsNewest},
	{Name: "retention/a trim counts the runs of its batch", check: trimCountsItsBatch},
	{Name: "retention/a trim neither counts nor removes dead runs", check: trimLeavesDead},
	{Name: "retention/expire removes what has ended, inclusive", check: expireEnded},
	{Name: "retention/expire keeps the newest", check: expireMost},
	{Name: "retention/expire counts the runs of its batch", check: expireCountsItsBatch},
	{Name: "retention/expire removes at most so many, oldest first", check: expireLimit},
	{Name: "retention/a replaced run expires once", check: expireReplaced},
}

func trimKeepsNewest(e *env) {
	s := e.own(3)
	for n := range int64(6) {
		r := s.run("a", n, carillon.RunSucceeded)
		r.Finished = base - n // the newest by schedule finished first
		s.putRuns(r, s.run("a/b", n, carillon.RunFailed), s.run("a0", n, carillon.RunSkipped))
	}
	trim := func(keep int) []int64 {
		s.apply(store.Batch{Trims: []store.Trim{{Key: key("a"), Keep: keep}}})
		return s.scheduled(s.runsOf(key("a")))
	}
	s.wantTimes("keep more than there are", trim(7), 5, 4, 3, 2, 1, 0)
	s.wantTimes("keep 4", trim(4), 5, 4, 3, 2)
	s.wantTimes("keep 4 again", trim(4), 5, 4, 3, 2)
	s.wantTimes("keep 1", trim(1), 5)
	s.wantTimes("keep none", trim(0))
	s.wantTimes("another job", s.scheduled(s.runsOf(key("a/b"))), 5, 4, 3, 2, 1, 0)
	s.wantTimes("yet another job", s.scheduled(s.runsOf(key("a0"))), 5, 4, 3, 2, 1, 0)
	if got, ok := s.runByID(s.runID(key("a"), 2)); ok {
		e.Errorf("a trimmed run is still found by its id: %s", canonRun(got))
	}
	s.apply(store.Batch{Trims: []store.Trim{{Key: key("a/b"), Keep: 2}, {Key: key("a0"), Keep: 3},
		{Key: key("nobody"), Keep: 1}}})
	s.wantTimes("two trims in a batch", s.scheduled(s.runsOf(key("a/b"))), 5, 4)
	s.wantTimes("two trims in a batch", s.scheduled(s.runsOf(key("a0"))), 5, 4, 3)
}

// scheduled are the times of runs, counted from base.
func (s shard) scheduled(runs []store.RunRecord) []int64 {
	var out []int64
	for _, r := range runs {
		out = append(out, r.ID.Scheduled-base)
	}
	return out
}

func (e *env) wantTimes(what string, got []int64, want ...int64) {
	e.Helper()
	if len(got) != len(want) {
		e.Errorf("%s: got %v, want %v", what, got, want)
		return
	}
	for i := range want {
		if got[i] != want[i] {
			e.Errorf("%s: got %v, want %v", what, got, want)
			return
		}
	}
}

func trimCountsItsBatch(e *env) {
	s := e.own(3)
	for n := range int64(5) {
		s.apply(store.Batch{Runs: []store.RunRecord{s.run("a", n, carillon.RunSucceeded)},
			Trims: []store.Trim{{Key: key("a"), Keep: 2}}})
	}
	s.wantTimes("Runs", s.scheduled(s.runsOf(key("a"))), 4, 3)
	s.apply(store.Batch{Runs: []store.RunRecord{s.run("a", 3, carillon.RunFailed)},
		Trims: []store.Trim{{Key: key("a"), Keep: 2}}})
	s.wantTimes("Runs after one was replaced", s.scheduled(s.runsOf(key("a"))), 4, 3)
}

func trimLeavesDead(e *env) {
	s := e.own(3)
	for n := range int64(8) {
		status := carillon.RunSucceeded
		if n%2 == 1 {
			status = carillon.RunDead
		}
		s.putRuns(s.run("a", n, status))
	}
	s.apply(store.Batch{Trims: []store.Trim{{Key: key("a"), Keep: 2}}})
	s.wantTimes("Runs", s.scheduled(s.runsOf(key("a"))), 7, 6, 5, 4, 3, 1)
	s.wantTimes("dead Runs", s.scheduled(s.deadOf(ns)), 7, 5, 3, 1)
}

// expire applies an expiry and says what is left of job a, with the dead.
func (s shard) expire(e store.Expire) []int64 {
	s.Helper()
	s.apply(store.Batch{Expire: &e})
	return s.scheduled(s.runsOf(key("a")))
}

// putExpiring records a run that expires at base + expires.
func (s shard) putExpiring(n, expires int64, status carillon.RunStatus) {
	s.Helper()
	r := s.run("a", n, status)
	r.Expires = base + expires
	s.putRuns(r)
}

func expireEnded(e *env) {
	s := e.own(3)
	s.putExpiring(1, 50, carillon.RunSucceeded)
	s.putExpiring(2, 40, carillon.RunDead)
	s.putExpiring(3, 30, carillon.RunFailed)
	s.putExpiring(4, 20, carillon.RunSkipped)
	at := func(n int64) store.Expire { return store.Expire{Before: base + n, Most: plenty, Limit: plenty} }
	s.wantTimes("before any ends", s.expire(at(19)), 4, 3, 2, 1)
	s.wantTimes("when the first ends", s.expire(at(20)), 3, 2, 1)
	s.wantTimes("when a dead one ends", s.expire(at(45)), 1)
	s.wantTimes("no dead run is left", s.scheduled(s.deadOf(ns)))
	s.wantTimes("when the last ends", s.expire(at(math.MaxInt64-base)))
}

func expireMost(e *env) {
	s := e.own(3)
	for n := range int64(6) {
		s.putExpiring(n, 100-n, carillon.RunSucceeded) // the newest by schedule ends first
	}
	s.putExpiring(10, 1, carillon.RunDead)
	s.putExpiring(11, 90, carillon.RunDead)
	most := func(n int) []int64 { return s.expire(store.Expire{Before: base, Most: n, Limit: plenty}) }
	s.wantTimes("at most 6", most(6), 11, 10, 5, 4, 3, 2, 1, 0)
	s.wantTimes("at most 4", most(4), 11, 10, 3, 2, 1, 0)
	s.wantTimes("at most 1", most(1), 11, 10, 0)
	s.putExpiring(20, -5, carillon.RunSucceeded)
	s.putExpiring(21, 50, carillon.RunSucceeded)
	s.wantTimes("what has ended goes first and counts", most(2), 21, 11, 10, 0)
}

func expireCountsItsBatch(e *env) {
	s := e.own(3)
	for n := range int64(4) {
		r := s.run("a", n, carillon.RunSucceeded)
		s.apply(store.Batch{Runs: []store.RunRecord{r},
			Expire: &store.Expire{Before: base, Most: 2, Limit: plenty}})
	}
	s.wantTimes("Runs", s.scheduled(s.runsOf(key("a"))), 3, 2)
	ended := s.run("a", 9, carillon.RunFailed)
	ended.Expires = base
	s.apply(store.Batch{Runs: []store.RunRecord{ended},
		Expire: &store.Expire{Before: base, Most: 2, Limit: plenty}})
	s.wantTimes("Runs after one that has ended already", s.scheduled(s.runsOf(key("a"))), 3, 2)
}

func expireLimit(e *env) {
	s := e.own(3)
	for n := range int64(8) {
		s.putExpiring(n, n*7%8, carillon.RunSucceeded) // ends in the order 0 7 6 5 4 3 2 1
	}
	q := store.Expire{Before: base + 5, Most: plenty, Limit: 3}
	s.wantTimes("first sweep", s.expire(q), 5, 4, 3, 2, 1)
	s.wantTimes("second sweep", s.expire(q), 2, 1)
	s.wantTimes("third sweep", s.expire(q), 2, 1)
	s.putExpiring(9, 50, carillon.RunSucceeded)
	q = store.Expire{Before: base + 6, Most: 1, Limit: 1}
	s.wantTimes("what has ended first", s.expire(q), 9, 1)
	s.wantTimes("then what is too many", s.expire(q), 9)
	s.wantTimes("then nothing", s.expire(q), 9)
}

func expireReplaced(e *env) {
	s := e.own(3)
	s.putExpiring(1, 10, carillon.RunSucceeded)
	s.putExpiring(2, 10, carillon.RunDead)
	s.putExpiring(1, 30, carillon.RunSucceeded)
	s.putExpiring(2, 31, carillon.RunFailed)
	s.wantTimes("at the earlier end", s.expire(store.Expire{Before: base + 20, Most: plenty, Limit: plenty}), 2,
		1)
	s.wantTimes("one is too many", s.expire(store.Expire{Before: base + 20, Most: 1, Limit: plenty}), 2)
	s.putExpiring(2, 15, carillon.RunFailed)
	s.wantTimes("at an end that came nearer",
		s.expire(store.Expire{Before: base + 20, Most: plenty, Limit: plenty}))
}

package storetest

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var listCases = []Case{
	{Name: "list/in order of name", check: listOrder},
	{Name: "list/never pending runs", check: listNoPending},
	{Name: "list/one namespace", check: listOneNamespace},
	{Name: "list/all namespaces", check: listAllNamespaces},
	{Name: "list/the first job of each namespace", check: listFirsts},
	{Name: "list/by prefix", check: listPrefix},
	{Name: "list/by what nothing can be called", check: listOddQueries},
	{Name: "list/by phase", check: listPhase},
	{Name: "list/all filters at once", check: listFilters},
	{Name: "list/pages give every job once", check: listPages},
	{Name: "list/pages stand writes between them", check: listUnderWrites},
	{Name: "list/returns specs of any length", check: listSpecs},
}

// inNamespace lists all jobs of ns.
func inNamespace(change func(q *store.ListQuery)) store.ListQuery {
	q := store.ListQuery{Namespace: ns, Limit: plenty}
	if change != nil {
		change(&q)
	}
	return q
}

func (s shard) putJobs(names ...string) {
	s.Helper()
	var records []store.Record
	for _, name := range names {
		records = append(records, job(name))
	}
	s.putShuffled(records)
}

func listOrder(e *env) {
	s := e.own(3)
	s.putJobs(oddNames...)
	var want []store.Record
	for _, name := range oddNames {
		want = append(want, job(name))
	}
	s.wantRecords("List", s.list(inNamespace(nil)), want...)
}

func listNoPending(e *env) {
	s := e.own(3)
	s.put(job("a"), pending("a", 1), pending("a", 2), pending("orphan", 1), job("b"))
	s.wantNames("List", s.list(inNamespace(nil)), "a", "b")
	s.wantNames("a page", s.list(inNamespace(func(q *store.ListQuery) { q.Limit = 2 })), "a", "b")
	s.wantNames("List after a", s.list(inNamespace(func(q *store.ListQuery) { q.After = "a" })), "b")
	s.wantNames("List by prefix", s.list(inNamespace(func(q *store.ListQuery) { q.Prefix = "orphan" })))
}

// namespaced is a job of another namespace than ns.
func namespaced(namespace, name string) store.Record {
	return record(store.Ref{Key: carillon.Key{Namespace: namespace, Name: name}})
}

func listOneNamespace(e *env) {
	s := e.own(3)
	s.put(job("b"), namespaced("tenant", "a"), namespaced("tenant-", "a"), namespaced("tenant-a-b", "a"),
		namespaced("tenant-aa", "a"),
		namespaced("tenant-a0", "c"), namespaced("tenant-b", "a"), namespaced("Tenant-a", "b"),
		namespaced("TENANT-A", "a"))
	s.wantNames("List", s.list(inNamespace(nil)), "b")
	s.wantNames("List after b", s.list(inNamespace(func(q *store.ListQuery) { q.After = "b" })))
	s.wantRecords("List of a namespace that differs in case only",
		s.list(store.ListQuery{Namespace: "TENANT-A", Limit: plenty}), namespaced("TENANT-A", "a"))
	s.wantNames("List by a prefix that others have",
		s.list(inNamespace(func(q *store.ListQuery) { q.Prefix = "a" })))
}

func listAllNamespaces(e *env) {
	s := e.own(3)
	all := []store.Record{namespaced("A", "y"), namespaced("Z", "a"), namespaced("a", "x"), namespaced("a", "y"),
		namespaced("a-b", "a"), namespaced("a-b", "x"), namespaced("a0", "a"),
		namespaced("aa", "x/1"), namespaced("b", "a")}
	s.putShuffled(append(all, record(store.Ref{Key: carillon.Key{Namespace: "a", Name: "x"}, Seq: 1})))
	s.wantRecords("List", s.list(store.ListQuery{Limit: plenty}), all...)
	s.wantRecords("List by prefix", s.list(store.ListQuery{Prefix: "x", Limit: plenty}), all[2], all[5], all[7])
	s.wantRecords("List after the first x",
		s.list(store.ListQuery{Prefix: "x", After: "a\x00x", Limit: plenty}), all[5], all[7])
	s.wantRecords("List after what is not there",
		s.list(store.ListQuery{After: "a-b\x00b", Limit: plenty}), all[5:]...)
	for i := range all {
		all[i].Exists = true
	}
	checkPages(e, all, canonRecord, func(after *store.Record, limit int) []store.Record {
		q := store.ListQuery{Limit: limit}
		if after != nil {
			q.After = after.Namespace + "\x00" + after.Name
		}
		return s.list(q)
	})
}

// listFirsts asks for the first job of each namespace, also where there are pending runs alone, and after
// what is no namespace.
func listFirsts(e *env) {
	s := e.own(3)
	first := []store.Record{namespaced("A", "z"), namespaced("a", "x"), namespaced("a-b", "b"),
		namespaced("a0", "a"), namespaced("aa", "y"), namespaced("b", "b")}
	long := namespaced("c", "long")
	spec(slices.Repeat([]byte{7}, 70_000))(&long)
	all := append(slices.Clone(first), long, namespaced("a", "y"), namespaced("a-b", "c"), namespaced("b", "c"))
	for _, seq := range []uint64{1, 2} {
		all = append(all, record(store.Ref{Key: carillon.Key{Namespace: "a", Name: "x"}, Seq: seq}),
			record(store.Ref{Key: carillon.Key{Namespace: "a1", Name: "orphan"}, Seq: seq}),
			record(store.Ref{Key: carillon.Key{Namespace: "b", Name: "a"}, Seq: seq}))
	}
	s.putShuffled(all)
	firsts := func(after string, limit int) []store.Record {
		return s.list(store.ListQuery{FirstOfEach: true, After: after, Limit: limit})
	}
	first = append(first, long)
	s.wantRecords("first of each", firsts("", plenty), first...)
	for after, want := range map[string]int{"0": 0, "A": 1, "B": 1, "a": 2, "a-": 2, "a-b": 3, "a1": 4,
		"a\x00": 2, "a\x01": 2, "b": 6, "\xff": 7, "c": 7} {
		s.wantRecords(fmt.Sprintf("first of each after %q", after), firsts(after, plenty), first[want:]...)
	}
	if got := firsts("", 0); len(got) != 0 {
		e.Errorf("a page of none: %v", got)
	}
	for i := range first {
		first[i].Exists = true
	}
	checkPages(e, first, canonRecord, func(after *store.Record, limit int) []store.Record {
		if after == nil {
			return firsts("", limit)
		}
		return firsts(after.Namespace, limit)
	})
	long.Spec = nil
	got := s.list(store.ListQuery{FirstOfEach: true, After: "aa", Limit: plenty, MaxSpec: 69_999})
	s.wantRecords("without long specs", got, first[5], long)
	s.delete(first[1].Ref, first[2].Ref, first[3].Ref)
	s.wantRecords("after deletes", firsts("A", 3), namespaced("a", "y"), namespaced("a-b", "c"), first[4])
}

func listPrefix(e *env) {
	s := e.own(3)
	s.putJobs(oddNames...)
	for _, prefix := range append([]string{"", "a/", "a/b/", "zzz", "none", "\xf0\x9f"}, oddNames...) {
		var want []string
		for _, name := range oddNames {
			if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
				want = append(want, name)
			}
		}
		got := s.list(inNamespace(func(q *store.ListQuery) { q.Prefix = prefix }))
		s.wantNames(fmt.Sprintf("prefix %q", prefix), got, want...)
		if len(want) > 1 {
			got = s.list(inNamespace(func(q *store.ListQuery) { q.Prefix, q.After = prefix, want[0] }))
			s.wantNames(fmt.Sprintf("prefix %q after %q", prefix, want[0]), got, want[1:]...)
		}
	}
	got := s.list(inNamespace(func(q *store.ListQuery) { q.Prefix, q.After = "a/", "a" }))
	s.wantNames("after what is before the prefix", got, "a/b", "a/b/c", "a/b0")
	got = s.list(inNamespace(func(q *store.ListQuery) { q.Prefix, q.After = "a/", "b" }))
	s.wantNames("after what is behind the prefix", got)
}

// listOddQueries has callers ask for what no name or namespace is: it is not there, and that is no error.
func listOddQueries(e *env) {
	s := e.own(3)
	s.putJobs("a", "b", "é")
	for _, odd := range []string{"a\x00", "\x00", "\xff", "a\xff", "\xc3\xff"} {
		var after []string
		for _, name := range []string{"a", "b", "é"} {
			if name > odd {
				after = append(after, name)
			}
		}
		s.wantNames(fmt.Sprintf("after %q", odd),
			s.list(inNamespace(func(q *store.ListQuery) { q.After = odd })), after...)
		s.wantNames(fmt.Sprintf("after %q of all", odd),
			s.list(store.ListQuery{After: ns + "\x00" + odd, Limit: plenty}), after...)
		s.wantNames(fmt.Sprintf("prefix %q", odd), s.list(inNamespace(func(q *store.ListQuery) { q.Prefix = odd })))
		s.wantNames(fmt.Sprintf("namespace %q", odd), s.list(store.ListQuery{Namespace: odd, Limit: plenty}))
		dead, err := s.Runs(e.Context(), ended(odd, carillon.RunDead))
		if err != nil || len(dead) != 0 {
			e.Errorf("dead runs of %q: %v, %v", odd, dead, err)
		}
	}
}

func listPhase(e *env) {
	s := e.own(3)
	for p := carillon.PhaseScheduled; p <= carillon.PhasePaused; p++ {
		s.put(job(fmt.Sprint("phase-", p), phase(p)), job(fmt.Sprint("was-", p), phase(p)))
	}
	for p := carillon.PhaseScheduled; p <= carillon.PhasePaused; p++ {
		s.put(job(fmt.Sprint("was-", p), phase((p+1)%(carillon.PhasePaused+1)), stateOnly))
	}
	for p := carillon.PhaseScheduled; p <= carillon.PhasePaused; p++ {
		before := (p + carillon.PhasePaused) % (carillon.PhasePaused + 1)
		got := s.list(inNamespace(func(q *store.ListQuery) { q.Phase = &p }))
		s.wantNames(fmt.Sprint("phase ", p), got, fmt.Sprint("phase-", p), fmt.Sprint("was-", before))
	}
}

func listFilters(e *env) {
	s := e.own(3)
	s.put(job("x/1", phase(carillon.PhaseRunning)), job("x/2"), job("x/4", phase(carillon.PhaseRunning)),
		job("y/1", phase(carillon.PhaseRunning)), job("x/5", phase(carillon.PhaseRunning)))
	q := inNamespace(func(q *store.ListQuery) {
		q.Prefix, q.Phase, q.Limit = "x/", new(carillon.PhaseRunning), 2
	})
	s.wantNames("first page", s.list(q), "x/1", "x/4")
	q.After = "x/4"
	s.wantNames("second page", s.list(q), "x/5")
	q.After = "x/5"
	s.wantNames("third page", s.list(q))
}

func listPages(e *env) {
	s := e.own(3)
	s.putJobs(oddNames...)
	for i, name := range oddNames {
		s.put(pending(name, uint64(i+1)))
	}
	var all []store.Record
	for _, name := range oddNames {
		all = append(all, stored(job(name)))
	}
	checkPages(e, all, canonRecord, func(after *store.Record, limit int) []store.Record {
		return s.list(inNamespace(func(q *store.ListQuery) {
			q.Limit = limit
			if after != nil {
				q.After = after.Name
			}
		}))
	})
}

func listUnderWrites(e *env) {
	s := e.own(3)
	s.putJobs("a", "b", "c", "d", "e")
	page := s.list(inNamespace(func(q *store.ListQuery) { q.Limit = 2 }))
	s.wantNames("first page", page, "a", "b")
	s.apply(store.Batch{Deletes: []store.Ref{jobRef("b"), jobRef("d")},
		Puts: []store.Record{job("aa"), job("bb"), job("c", due(1))}})
	page = s.list(inNamespace(func(q *store.ListQuery) { q.Limit, q.After = 2, "b" }))
	s.wantNames("second page", page, "bb", "c")
	page = s.list(inNamespace(func(q *store.ListQuery) { q.Limit, q.After = 2, "c" }))
	s.wantNames("third page", page, "e")
}

func listSpecs(e *env) {
	s := e.own(3)
	var want []store.Record
	for i, size := range []int{10, 1000, 2000, 70_000} {
		want = append(want, job(fmt.Sprint("job-", i), full, spec(slices.Repeat([]byte{byte(i)}, size))))
	}
	s.put(want...)
	s.wantRecords("List", s.list(inNamespace(nil)), want...)
}

package storetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// phaseCases are about lists by phase, and of pending runs.
var phaseCases = []Case{
	{Name: "phases/jobs of one phase, and not their pending runs", check: phaseOfJobs},
	{Name: "phases/pending runs with the jobs, in the order of refs", check: phaseWithPending},
	{Name: "phases/all namespaces, or one", check: phaseNamespaces},
	{Name: "phases/pages give every record once", check: phasePages},
	{Name: "phases/pages stand writes between them", check: phaseUnderWrites},
	{Name: "phases/a rewrite replaces the entry", check: phaseRewrite},
	{Name: "phases/long specs are left out", check: phaseMaxSpec},
	{Name: "pending/of all jobs, in the order of refs", check: pendingOfAll},
	{Name: "pending/of one job, be it there or not", check: pendingOfOne},
}

// inPhase asks for all jobs and pending runs of a phase.
func inPhase(p carillon.Phase) store.ListQuery {
	return store.ListQuery{Pending: true, Phase: &p, Limit: plenty}
}

// refsOf are the refs of records.
func refsOf(list []store.Record) (refs []store.Ref) {
	for _, r := range list {
		refs = append(refs, r.Ref)
	}
	return refs
}

func phaseOfJobs(e *env) {
	s := e.own(3)
	for p := carillon.PhaseScheduled; p <= carillon.PhaseWaiting; p++ {
		name := fmt.Sprint("job-", p)
		other := (p + 1) % (carillon.PhaseWaiting + 1)
		s.put(job(name, phase(p)), pending(name, 1, phase(p)), pending(name, 2, phase(other)),
			job("b/"+name, phase(p)), pending("orphan", uint64(p)+1, phase(p)))
	}
	for p := carillon.PhaseScheduled; p <= carillon.PhaseWaiting; p++ {
		q := inNamespace(func(q *store.ListQuery) { q.Phase = &p })
		name := fmt.Sprint("job-", p)
		s.wantNames(fmt.Sprint("phase ", p), s.list(q), "b/"+name, name)
		q.After = "b/" + name
		s.wantNames(fmt.Sprint("phase ", p, ", after the first"), s.list(q), name)
		q.After, q.Prefix = "", "b/"
		s.wantNames(fmt.Sprint("phase ", p, ", by prefix"), s.list(q), "b/"+name)
		q.Prefix, q.Limit = "", 1
		s.wantNames(fmt.Sprint("phase ", p, ", one"), s.list(q), "b/"+name)
	}
}

func phaseWithPending(e *env) {
	s := e.own(3)
	for p := carillon.PhaseScheduled; p <= carillon.PhaseWaiting; p++ {
		own := pending("b", 300+uint64(p), phase(p), spec(specOf("of the run", "env=prod")))
		records := []store.Record{job(fmt.Sprint("a-", p), phase(p)), pending(fmt.Sprint("a-", p), 1, phase(p)),
			pending("b", 7+uint64(p), phase(p)), own, job(fmt.Sprint("c-", p), phase(p))}
		s.putShuffled(records)
		q := inPhase(p)
		s.wantRecords(fmt.Sprint("phase ", p), s.list(q), records...)
		q.Namespace, q.Prefix = ns, "b"
		s.wantRecords(fmt.Sprint("phase ", p, ", by prefix"), s.list(q), records[2:4]...)
	}
}

func phaseNamespaces(e *env) {
	s := e.own(3)
	var all []store.Record
	for _, namespace := range []string{"A", "a", "a-b", "a0", "aa", "b"} {
		k := carillon.Key{Namespace: namespace, Name: "x"}
		all = append(all, record(store.Ref{Key: k}, phase(carillon.PhasePaused)),
			record(store.Ref{Key: k, Seq: 1}, phase(carillon.PhasePaused)),
			record(store.Ref{Key: k, Seq: math.MaxInt64}, phase(carillon.PhasePaused)))
		s.put(record(store.Ref{Key: k, Seq: 3}, phase(carillon.PhaseRetrying)),
			record(store.Ref{Key: carillon.Key{Namespace: namespace, Name: "y"}}))
	}
	s.putShuffled(all)
	s.wantRecords("all namespaces", s.list(inPhase(carillon.PhasePaused)), all...)
	for i := 0; i < len(all); i += 3 {
		q := inPhase(carillon.PhasePaused)
		q.Namespace = all[i].Namespace
		s.wantRecords(q.Namespace, s.list(q), all[i:i+3]...)
		q.After = "x"
		s.wantRecords(q.Namespace+" after the job", s.list(q), all[i+1:i+3]...)
		q.AfterSeq = 1
		s.wantRecords(q.Namespace+" after a run", s.list(q), all[i+2])
		q.Pending, q.After = false, ""
		s.wantRecords("jobs of "+q.Namespace, s.list(q), all[i])
		q.Namespace, q.After = "", all[i].Namespace+"\x00x"
		jobs := s.list(q)
		if want := len(all)/3 - i/3 - 1; len(jobs) != want {
			e.Errorf("%d jobs after the one of %s, want %d", len(jobs), all[i].Namespace, want)
		}
	}
	s.wantNames("a namespace that is not there", s.list(store.ListQuery{Namespace: "nobody", Pending: true,
		Phase: new(carillon.PhasePaused), Limit: plenty}))
}

// listPagesOf checks that pages of a list are the whole list.
func (s shard) listPagesOf(q store.ListQuery) {
	s.Helper()
	q.Limit = plenty
	checkPages(s.env, s.list(q), canonRecord, func(after *store.Record, limit int) []store.Record {
		page := q
		page.Limit = limit
		if after != nil {
			page.Past(after.Ref)
		}
		return s.list(page)
	})
}

func phasePages(e *env) {
	s := e.own(3)
	var want []store.Ref
	for i, name := range oddNames {
		r := job(name, phase(carillon.PhaseStaged))
		if i%3 == 0 {
			r.State.Phase = carillon.PhaseScheduled
		}
		s.put(r)
		if i%3 != 0 {
			want = append(want, r.Ref)
		}
		for seq := uint64(1); seq < 1<<40; seq *= 1 << 13 {
			p := pending(name, seq, phase(carillon.PhaseStaged))
			s.put(p)
			want = append(want, p.Ref)
		}
	}
	s.put(namespaced("tenant", "a"), record(
		store.Ref{Key: carillon.Key{Namespace: "tenant-b", Name: "z"}, Seq: 4}, phase(carillon.PhaseStaged)))
	q := inPhase(carillon.PhaseStaged)
	q.Namespace = ns
	s.wantRefs("all", s.list(q), want...)
	for _, pending := range []bool{true, false} {
		for _, namespace := range []string{ns, ""} {
			for _, prefix := range []string{"", "a/"} {
				s.listPagesOf(store.ListQuery{Namespace: namespace, Prefix: prefix, Phase: q.Phase, Pending: pending})
				s.listPagesOf(store.ListQuery{Namespace: namespace, Prefix: prefix, Pending: pending})
			}
		}
	}
	s.listPagesOf(store.ListQuery{PendingOf: new(key(oddNames[4]))})
}

func phaseUnderWrites(e *env) {
	s := e.own(3)
	staged := phase(carillon.PhaseStaged)
	s.put(job("a", staged), pending("a", 1, staged), pending("a", 5, staged), job("b", staged), job("c", staged))
	q := inPhase(carillon.PhaseStaged)
	q.Limit = 2
	s.wantRefs("first page", s.list(q), jobRef("a"), pendingRef("a", 1))
	s.apply(store.Batch{Deletes: []store.Ref{pendingRef("a", 1)}, Puts: []store.Record{
		job("a", stateOnly, phase(carillon.PhaseRunning)), pending("a", 3, staged), job("b", stateOnly),
		job("bb", staged)}})
	q.Past(pendingRef("a", 1))
	s.wantRefs("second page", s.list(q), pendingRef("a", 3), pendingRef("a", 5))
	q.Past(pendingRef("a", 5))
	s.wantRefs("third page", s.list(q), jobRef("bb"), jobRef("c"))
	s.delete(jobRef("a"))
	q.Past(store.Ref{Key: carillon.Key{Namespace: ns}})
	s.wantRefs("from the start, without the job and its runs", s.list(q), jobRef("bb"), jobRef("c"))
}

func phaseRewrite(e *env) {
	s := e.own(3)
	for _, ref := range []store.Ref{jobRef("a"), pendingRef("a", 9)} {
		for i, p := range []carillon.Phase{1, 1, 0, 0, 2, 3, 3, 0, 5, 6, 2, 2, 4} {
			s.put(record(ref, phase(p), due(base+int64(i%2))))
			for other := carillon.PhaseReady; other <= carillon.PhaseWaiting; other++ {
				var want []store.Ref
				if other == p {
					want = []store.Ref{ref}
				}
				got := slices.DeleteFunc(s.list(inPhase(other)), func(r store.Record) bool { return r.Ref != ref })
				s.wantRefs(fmt.Sprint(ref.Seq, " step ", i, ", phase ", other), got, want...)
			}
		}
	}
	s.delete(jobRef("a"))
	s.put(job("a"))
	for p := carillon.PhaseReady; p <= carillon.PhaseWaiting; p++ {
		s.wantRefs(fmt.Sprint("phase ", p, " after a delete"), s.list(inPhase(p)))
	}
}

func phaseMaxSpec(e *env) {
	s := e.own(3)
	short, long := make([]byte, 2000), make([]byte, 2001)
	s.put(job("a", full, spec(short)), job("b", full, spec(long)), pending("b", 1, full, spec(long)))
	q := inPhase(carillon.PhaseStaged)
	s.wantRecords("without a limit", s.list(q), job("a", full, spec(short)), job("b", full, spec(long)),
		pending("b", 1, full, spec(long)))
	q.MaxSpec = 2000
	s.wantRecords("up to 2000 bytes", s.list(q), job("a", full, spec(short)), job("b", full, stateOnly),
		pending("b", 1, full))
}

func pendingOfAll(e *env) {
	s := e.own(3)
	all := []store.Record{job("a"), pending("a", 1, phase(carillon.PhaseStaged)), pending("a", 200),
		pending("a/b", 3), job("a0"), pending("a0", 1<<62, full)}
	s.putShuffled(all)
	s.wantRecords("List", s.list(store.ListQuery{Pending: true, Limit: plenty}), all...)
	s.wantRecords("of a namespace", s.list(inNamespace(func(q *store.ListQuery) { q.Pending = true })), all...)
	s.wantRecords("by prefix",
		s.list(inNamespace(func(q *store.ListQuery) { q.Pending, q.Prefix = true, "a/" })), all[3])
	s.wantRecords("after a run",
		s.list(inNamespace(func(q *store.ListQuery) { q.Pending, q.After, q.AfterSeq = true, "a", 1 })), all[2:]...)
	s.wantRecords("a page", s.list(inNamespace(func(q *store.ListQuery) {
		q.Pending, q.After, q.Limit = true, "a", 3
	})), all[1:4]...)
	s.wantNames("jobs alone", s.list(inNamespace(func(q *store.ListQuery) { q.AfterSeq = 1 })), "a", "a0")
}

func pendingOfOne(e *env) {
	s := e.own(3)
	runs := []store.Record{pending("a", 1, phase(carillon.PhaseStaged)), pending("a", 200),
		pending("a", 1<<62, spec(specOf("own")), phase(carillon.PhaseStaged))}
	s.putShuffled(append(runs, job("a", phase(carillon.PhaseStaged)), job("b"), pending("a/b", 1),
		pending("orphan", 4)))
	of := func(name string, change func(q *store.ListQuery)) []store.Record {
		q := store.ListQuery{PendingOf: new(key(name)), Limit: plenty}
		if change != nil {
			change(&q)
		}
		return s.list(q)
	}
	s.wantRecords("all", of("a", nil), runs...)
	s.wantRecords("after one", of("a", func(q *store.ListQuery) { q.AfterSeq = 1 }), runs[1:]...)
	s.wantRecords("after the last", of("a", func(q *store.ListQuery) { q.AfterSeq = 1 << 62 }))
	s.wantRecords("a page", of("a", func(q *store.ListQuery) { q.Limit = 2 }), runs[:2]...)
	in := func(p carillon.Phase) []store.Record {
		return of("a", func(q *store.ListQuery) { q.Phase = &p })
	}
	s.wantRecords("staged", in(carillon.PhaseStaged), runs[0], runs[2])
	s.wantRecords("scheduled", in(carillon.PhaseScheduled), runs[1])
	s.wantRecords("none", of("b", nil))
	s.wantRecords("a job that is not there", of("orphan", nil), pending("orphan", 4))
	other := carillon.Key{Namespace: "tenant-b", Name: "a"}
	s.wantRecords("another namespace", s.list(store.ListQuery{PendingOf: &other, Limit: plenty}))
	short := of("a", func(q *store.ListQuery) { q.MaxSpec = 1 })
	if len(short) != 3 || short[2].Spec != nil {
		e.Errorf("without long specs: %v", refsOf(short))
	}
}

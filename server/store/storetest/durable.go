package storetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var durableCases = []Case{
	{Name: "durable/meta says how the store was created", check: metaSays},
	{Name: "durable/everything is there after a reopen", check: reopened(everythingIsThere), needs: canReopen},
	{Name: "durable/everything is there after a crash", check: crashed(everythingIsThere), needs: canCrash},
	{Name: "durable/what was just acknowledged survives a reopen", check: reopened(justAcknowledged),
		needs: canReopen},
	{Name: "durable/what was just acknowledged survives a crash", check: crashed(justAcknowledged),
		needs: canCrash},
	{Name: "durable/meta stays after a reopen", check: reopened(metaStays), needs: canReopen},
	{Name: "durable/epochs grow over a reopen", check: reopened(epochsGrowOver), needs: canReopen},
	{Name: "durable/epochs grow over a crash", check: crashed(epochsGrowOver), needs: canCrash},
	{Name: "durable/how long a lease would last is known after a crash", check: crashed(leaseLastedOver),
		needs: canCrash},
}

func canReopen(o Options) bool { return o.Reopen != nil }

func canCrash(o Options) bool { return o.Crash != nil }

// reopened makes a case of what must hold after the store was closed and opened again.
func reopened(check func(e *env, again func())) func(e *env) {
	return func(e *env) { check(e, func() { e.store = e.opts.Reopen(e, e.store) }) }
}

// crashed makes a case of what must hold after a crash.
func crashed(check func(e *env, again func())) func(e *env) {
	return func(e *env) { check(e, func() { e.store = e.opts.Crash(e, e.store) }) }
}

func metaSays(e *env) {
	m := e.store.Meta()
	if m.Format != store.Format() || m.Partitions < 1 || len(m.MACKey) != 32 ||
		bytes.Equal(m.MACKey, make([]byte, 32)) {
		e.Errorf("Meta of a new store: %+v", m)
	}
	scribble(m.MACKey)
	if bytes.Equal(e.store.Meta().MACKey, m.MACKey) {
		e.Error("the MAC key can be changed from outside")
	}
}

// dumpNames are the jobs whose history a dump shows.
var dumpNames = slices.Concat(oddNames,
	[]string{"doomed", "kept", "new", "dead", "trimmed", "expired", "full"})

// dump is all that a partition holds, as text.
func (s shard) dump() []string {
	s.Helper()
	out := canons(s.list(store.ListQuery{Pending: true, Limit: plenty}), canonRecord)
	for p := carillon.PhaseScheduled; p <= carillon.PhaseWaiting; p++ {
		for _, r := range s.list(inPhase(p)) {
			out = append(out, p.String()+" "+canonRecord(r))
		}
	}
	for rank := range uint8(4) {
		for _, r := range s.due(store.DueQuery{Priority: rank, Until: math.MaxInt64, Limit: plenty}) {
			out = append(out, "due "+canonRecord(r))
		}
	}
	for _, r := range s.staged(allStaged("queue")) {
		ref, ok := s.live(r.State.Identity(s.partition))
		out = append(out, "staged "+canonRecord(r), fmt.Sprint("live ", ref, ok))
	}
	for _, name := range dumpNames {
		out = append(out, canons(s.runsOf(key(name)), canonRun)...)
	}
	for status := carillon.RunSucceeded; status <= carillon.RunSkipped; status++ {
		for _, r := range s.runs(ended(ns, status)) {
			out = append(out, status.String()+" "+canonRun(r))
		}
	}
	for kind := range byte(10) {
		out = append(out, canons(s.metaRecords(store.MetaQuery{Kind: kind, Limit: plenty}), canonMetaRecords)...)
	}
	return out
}

// everythingIsThere fills some partitions, rewrites and deletes, opens the store again and goes on.
func everythingIsThere(e *env, again func()) {
	partitions := []int{0, 3, e.store.Meta().Partitions - 1}
	for round := range 3 {
		was := map[int][]string{}
		for _, p := range partitions {
			s := e.own(p)
			before, batch := s.everything()
			s.apply(before)
			s.putRuns(s.fullRun("full", int64(round)))
			s.put(job(fmt.Sprint("big-", round), spec(slices.Repeat([]byte{byte(round + 1)}, 5000))),
				everywhere(pendingRef("a", 7)))
			s.apply(batch)
			s.delete(pendingRef("a", 7))
			was[p] = s.dump()
		}
		again()
		for _, p := range partitions {
			e.wantTexts(fmt.Sprint("partition ", p), e.at(p, store.Term{}).dump(), was[p])
		}
	}
}

// justAcknowledged opens the store again right after a batch was acknowledged.
func justAcknowledged(e *env, again func()) {
	var want []store.Record
	for i := range 5 {
		s := e.own(3)
		r := job(fmt.Sprint("job-", i), due(base+int64(i)))
		if i > 0 {
			gone := want[i-1]
			want[i-1] = job(gone.Name, due(gone.State.Due+1000))
			s.apply(store.Batch{Puts: []store.Record{r, {Ref: gone.Ref, State: want[i-1].State}}})
		} else {
			s.put(r)
		}
		want = append(want, r)
		again()
		read := e.at(3, store.Term{})
		e.wantRecords("List", read.list(inNamespace(nil)), slices.Clone(want)...)
		if got := read.due(allDue(2)); len(got) != len(want) || got[0].Ref != r.Ref {
			e.Errorf("Due: %s", lines(canons(got, canonRecord)))
		}
	}
	e.own(3).delete(jobRef("job-0"))
	again()
	e.at(3, store.Term{}).wantNowhere(jobRef("job-0"))
}

func metaStays(e *env, again func()) {
	was := fmt.Sprintf("%+v", e.store.Meta())
	for range 2 {
		again()
		if is := fmt.Sprintf("%+v", e.store.Meta()); is != was {
			e.Errorf("Meta was %s and is %s", was, is)
		}
	}
}

// epochsGrowOver: no epoch is given twice, and an owner from before is refused once somebody has claimed.
func epochsGrowOver(e *env, again func()) {
	old := []store.Term{e.claim("node-1", 3, lasting)}
	for range 3 {
		again()
		s := e.own(3)
		if last := old[len(old)-1]; s.term.Epoch <= last.Epoch || s.term.Nonce == last.Nonce {
			e.Errorf("%+v after %+v", s.term, last)
		}
		for _, term := range old {
			e.at(3, term).fenced(store.Batch{Puts: []store.Record{job("a")}})
		}
		s.put(job("a"))
		old = append(old, s.term)
	}
}

package storetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var batchCases = []Case{
	{Name: "batch/what is put is read back", check: putIsReadBack},
	{Name: "batch/read keeps the order of the refs", check: readKeepsOrder},
	{Name: "batch/a put replaces", check: putReplaces},
	{Name: "batch/a nil spec keeps the stored one", check: nilSpecKeeps},
	{Name: "batch/a pending run may have a spec of its own", check: pendingWithSpec},
	{Name: "batch/a delete leaves nothing", check: deleteLeavesNothing},
	{Name: "batch/a job goes with its pending runs", check: jobGoesWithPending},
	{Name: "batch/a deleted job comes back as new", check: deletedComesBack},
	{Name: "batch/all parts are applied", check: allPartsApplied},
	{Name: "batch/an empty batch changes nothing", check: emptyBatch},
	{Name: "batch/a cancelled context leaves no doubt", check: cancelledContext},
	{Name: "batch/what was put is not aliased", check: inputsNotAliased},
	{Name: "batch/what is returned is not aliased", check: resultsNotAliased},
	{Name: "batch/partitions are apart", check: partitionsApart},
	{Name: "batch/large specs", check: largeSpecs},
	{Name: "batch/many records", check: manyRecords},
}

func putIsReadBack(e *env) {
	s := e.own(3)
	want := []store.Record{job("full", full), job("zero"), pending("full", 1, full),
		pending("full", 1<<63, full)}
	for _, name := range oddNames {
		want = append(want, job(name))
	}
	s.put(want...)
	for _, r := range want {
		s.wantRecord(r)
	}
}

func readKeepsOrder(e *env) {
	s := e.own(3)
	s.put(job("a"), job("b"), pending("a", 2))
	refs := []store.Ref{jobRef("b"), jobRef("none"), pendingRef("a", 2), jobRef("b"),
		pendingRef("a", 1), jobRef("a")}
	got, err := s.Read(s.Context(), refs)
	s.must(err)
	s.wantRefs("Read", got, refs...)
	for i, exists := range []bool{true, false, true, true, false, true} {
		if i < len(got) && got[i].Exists != exists {
			s.Errorf("%v: Exists = %v", refs[i], got[i].Exists)
		}
	}
	s.wantGone(jobRef("none"))
	if got, err := s.Read(s.Context(), nil); err != nil || len(got) != 0 {
		s.Errorf("Read of nothing = %v, %v", got, err)
	}
}

func putReplaces(e *env) {
	s := e.own(3)
	s.put(job("a", full))
	again := job("a", spec([]byte("another spec")), due(base+99))
	s.put(again)
	s.wantRecord(again)
	s.wantRecords("Due", s.due(store.DueQuery{Priority: 2, Until: base + 99, Limit: plenty}), again)
}

func nilSpecKeeps(e *env) {
	s := e.own(3)
	first := job("a", due(base))
	s.put(first)
	for i := range int64(3) {
		s.put(job("a", full, stateOnly, due(base+i)))
		s.wantRecord(job("a", full, spec(first.Spec), due(base+i)))
	}
	s.put(job("a", stateOnly), job("b"))
	s.wantRecord(job("a", spec(first.Spec)))
}

func pendingWithSpec(e *env) {
	s := e.own(3)
	own := specOf("of the redriven run")
	s.put(pending("gone", 4, spec(own), due(base)))
	s.put(pending("gone", 4, due(base+1)))
	s.wantRecord(pending("gone", 4, spec(own), due(base+1)))
	s.wantRecords("Due", s.due(store.DueQuery{Priority: 2, Until: base + 1, Limit: plenty}),
		pending("gone", 4, spec(own), due(base+1)))
	s.put(pending("a", 1, due(base)))
	s.wantRecord(pending("a", 1, due(base)))
}

// everywhere is a record with an entry in every index.
func everywhere(ref store.Ref) store.Record {
	return record(ref, running(base+5, carillon.CauseTrigger, ref.Seq), parked("queue", base+5), due(base+5))
}

// wantNowhere checks that no index has an entry of a record that everywhere made.
func (s shard) wantNowhere(ref store.Ref) {
	s.Helper()
	s.wantGone(ref)
	has := func(list []store.Record) bool {
		return slices.ContainsFunc(list, func(r store.Record) bool { return r.Ref == ref })
	}
	for _, q := range []store.ListQuery{{}, {Pending: true}, {PendingOf: &ref.Key},
		{Pending: true, Phase: new(carillon.PhaseStaged)}} {
		if q.Limit = plenty; has(s.list(q)) {
			s.Errorf("List(%+v) still has %v", q, ref)
		}
	}
	for rank := range uint8(4) {
		if has(s.due(store.DueQuery{Priority: rank, Until: base + 1e9, Limit: plenty})) {
			s.Errorf("Due still has %v", ref)
		}
	}
	if has(s.staged(store.StagedQuery{Queue: "queue", Limit: plenty})) {
		s.Errorf("Staged still has %v", ref)
	}
	r := everywhere(ref)
	if at, ok := s.live(r.State.Identity(s.partition)); ok {
		s.Errorf("Live still finds %v", at)
	}
}

func deleteLeavesNothing(e *env) {
	s := e.own(3)
	s.put(everywhere(jobRef("a")), everywhere(pendingRef("b", 7)), everywhere(jobRef("c")))
	s.delete(jobRef("a"), pendingRef("b", 7), jobRef("never was"), pendingRef("nor this", 1))
	s.wantNowhere(jobRef("a"))
	s.wantNowhere(pendingRef("b", 7))
	s.wantRecord(everywhere(jobRef("c")))
	s.delete(jobRef("a"))
	s.wantNowhere(jobRef("a"))
}

func jobGoesWithPending(e *env) {
	s := e.own(3)
	other := carillon.Key{Namespace: "tenant-b", Name: "a"}
	gone := []store.Ref{jobRef("a")}
	for _, seq := range []uint64{1, 2, 255, 256, 1<<64 - 1} {
		gone = append(gone, pendingRef("a", seq))
	}
	stay := []store.Ref{pendingRef("b", 1), {Key: other}, {Key: other, Seq: 2}}
	for _, name := range oddNames {
		if name != "a" {
			stay = append(stay, jobRef(name), pendingRef(name, 2))
		}
	}
	for _, ref := range slices.Concat(gone, stay) {
		s.put(everywhere(ref))
	}
	s.delete(pendingRef("a", 2))
	s.wantNowhere(pendingRef("a", 2))
	s.wantRecord(everywhere(jobRef("a")))
	s.delete(jobRef("a"))
	for _, ref := range gone {
		s.wantNowhere(ref)
	}
	for _, ref := range stay {
		s.wantRecord(everywhere(ref))
	}
	s.put(everywhere(pendingRef("orphan", 1)))
	s.delete(jobRef("orphan"))
	s.wantNowhere(pendingRef("orphan", 1))
}

func deletedComesBack(e *env) {
	s := e.own(3)
	s.put(everywhere(jobRef("a")), pending("a", 1))
	s.delete(jobRef("a"))
	again := job("a", spec(specOf("second life")), due(base+77))
	s.put(again)
	s.wantRecord(again)
	s.wantGone(pendingRef("a", 1))
	s.wantRecords("Due", s.due(store.DueQuery{Priority: 2, Until: base + 100, Limit: plenty}), again)
	s.wantRecords("Staged", s.staged(store.StagedQuery{Queue: "queue", Limit: plenty}))
}

// everything is a batch with all its parts, on top of what before put.
func (s shard) everything() (before, batch store.Batch) {
	dead := s.run("dead", 1, carillon.RunDead)
	before = store.Batch{
		Puts: []store.Record{everywhere(jobRef("doomed")), everywhere(jobRef("kept"))},
		Runs: []store.RunRecord{dead, s.run("trimmed", 1, carillon.RunSucceeded),
			s.run("trimmed", 2, carillon.RunSucceeded)},
		MetaRecords: []store.MetaRecord{{Kind: 1, Key: "old", Value: []byte("1")}},
	}
	old := s.run("expired", 1, carillon.RunFailed)
	old.Expires = base - 1000
	before.Runs = append(before.Runs, old)
	batch = store.Batch{
		Puts:        []store.Record{everywhere(jobRef("new")), job("kept", stateOnly, due(base+1))},
		Deletes:     []store.Ref{jobRef("doomed")},
		Runs:        []store.RunRecord{s.run("new", 3, carillon.RunDead)},
		Redrive:     []store.RunRef{{Key: dead.Key, ID: dead.ID}},
		Trims:       []store.Trim{{Key: key("trimmed"), Keep: 1}},
		Expire:      &store.Expire{Before: base - 1000, Most: 100, Limit: 100},
		MetaRecords: []store.MetaRecord{{Kind: 1, Key: "old"}, {Kind: 1, Key: "new", Value: []byte("2")}},
	}
	return before, batch
}

func allPartsApplied(e *env) {
	s := e.own(3)
	before, batch := s.everything()
	s.apply(before)
	s.apply(batch)
	s.wantEverything()
}

// wantEverything checks that the two batches of everything were applied.
func (s shard) wantEverything() {
	s.Helper()
	s.wantRecord(everywhere(jobRef("new")))
	s.wantRecord(job("kept", due(base+1)))
	s.wantNowhere(jobRef("doomed"))
	s.wantRuns("Runs of a new run", s.runsOf(key("new")), s.run("new", 3, carillon.RunDead))
	s.wantRuns("Runs of a redriven run", s.runsOf(key("dead")))
	s.wantRuns("dead runs", s.deadOf(ns), s.run("new", 3, carillon.RunDead))
	s.wantRuns("trimmed runs", s.runsOf(key("trimmed")), s.run("trimmed", 2, carillon.RunSucceeded))
	s.wantRuns("expired runs", s.runsOf(key("expired")))
	s.wantMetaRecords("MetaRecords", s.metaRecords(store.MetaQuery{Kind: 1, Limit: plenty}),
		store.MetaRecord{Kind: 1, Key: "new", Value: []byte("2")})
}

func emptyBatch(e *env) {
	s := e.own(3)
	s.put(job("a"))
	s.apply(store.Batch{})
	s.wantRecord(job("a"))
}

func cancelledContext(e *env) {
	s := e.own(3)
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	want := job("a", due(base))
	switch err := s.Apply(ctx, &store.Batch{Puts: []store.Record{want}}); store.OutcomeOf(err) {
	case store.Applied:
		s.wantRecord(want)
	case store.NotApplied:
		s.wantNowhere(want.Ref)
	default:
		e.Errorf("Apply with a cancelled context: %v", err)
	}
	s.put(job("b"))
	s.wantRecord(job("b"))
}

func inputsNotAliased(e *env) {
	s := e.own(3)
	put, run := job("a", full), s.fullRun("a", 1)
	wantPut, wantRun := job("a", full), s.fullRun("a", 1)
	record := store.MetaRecord{Kind: 1, Key: "k", Value: []byte("value")}
	b := store.Batch{Puts: []store.Record{put}, Runs: []store.RunRecord{run},
		MetaRecords: []store.MetaRecord{record}}
	s.apply(b)
	scribble(put.Spec, run.Response, run.Spec, record.Value)
	put.State.Run.Errors[0].Message, run.Errors[0].Message = "scribbled", "scribbled"
	b.Puts[0], b.Runs[0], b.MetaRecords[0] = job("other"), s.run("other", 5,
		carillon.RunFailed), store.MetaRecord{Kind: 9, Key: "other"}
	s.wantRecord(wantPut)
	s.wantRuns("Runs", s.runsOf(key("a")), wantRun)
	s.wantMetaRecords("MetaRecords", s.metaRecords(store.MetaQuery{Kind: 1, Limit: plenty}),
		store.MetaRecord{Kind: 1, Key: "k", Value: []byte("value")})
}

func scribble(list ...[]byte) {
	for _, b := range list {
		for i := range b {
			b[i] ^= 0xff
		}
	}
}

func resultsNotAliased(e *env) {
	s := e.own(3)
	s.apply(store.Batch{Puts: []store.Record{job("a", full)}, Runs: []store.RunRecord{s.fullRun("a", 1)},
		MetaRecords: []store.MetaRecord{{Kind: 1, Key: "k", Value: []byte("value")}}})
	reads := map[string]func() []store.Record{
		"Read": func() []store.Record { return []store.Record{s.read(jobRef("a"))} },
		"List": func() []store.Record { return s.list(store.ListQuery{Limit: plenty}) },
		"Due": func() []store.Record {
			return s.due(store.DueQuery{Priority: 1, Until: base + 99, Limit: plenty})
		},
		"Staged": func() []store.Record { return s.staged(store.StagedQuery{Queue: "queue", Limit: plenty}) },
	}
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		for _, r := range reads[name]() {
			scribble(r.Spec)
			r.State.Run.Errors[0].Message = "scribbled"
		}
		s.wantRecords(name+" after its result was changed", reads[name](), job("a", full))
	}
	for _, q := range []store.RunQuery{{Job: new(key("a"))}, {ID: new(s.fullRun("a", 1).ID)},
		ended(ns, carillon.RunDead)} {
		q.Limit = 1
		r := s.runs(q)[0]
		scribble(r.Response, r.Spec)
		r.Errors[0].Message, r.Labels["env"] = "scribbled", "scribbled"
		s.wantRuns("Runs after its result was changed", s.runs(q), s.fullRun("a", 1))
	}
	q := store.MetaQuery{Kind: 1, Limit: 1}
	scribble(s.metaRecords(q)[0].Value)
	s.wantMetaRecords("MetaRecords after its result was changed", s.metaRecords(q),
		store.MetaRecord{Kind: 1, Key: "k", Value: []byte("value")})
}

func partitionsApart(e *env) {
	last := e.store.Meta().Partitions - 1
	shards := []shard{e.own(0), e.own(1), e.own(last)}
	version := func(i int) store.Record { return job("a", full, spec([]byte{byte(i)})) }
	for i, s := range shards {
		s.apply(store.Batch{Puts: []store.Record{version(i)}, Runs: []store.RunRecord{s.fullRun("a", 1)},
			MetaRecords: []store.MetaRecord{{Kind: 1, Key: "k", Value: []byte{byte(i)}}}})
	}
	shards[1].delete(jobRef("a"))
	for i, s := range shards {
		var want []store.Record
		if i != 1 {
			want = []store.Record{version(i)}
		}
		s.wantRecords("List", s.list(store.ListQuery{Limit: plenty}), want...)
		s.wantRecords("Due", s.due(store.DueQuery{Priority: 1, Until: base + 99, Limit: plenty}), want...)
		s.wantRecords("Staged", s.staged(store.StagedQuery{Queue: "queue", Limit: plenty}), want...)
		s.wantRuns("Runs", s.runsOf(key("a")), s.fullRun("a", 1))
		s.wantRuns("dead Runs", s.deadOf(ns), s.fullRun("a", 1))
		s.wantMetaRecords("MetaRecords", s.metaRecords(store.MetaQuery{Kind: 1, Limit: plenty}),
			store.MetaRecord{Kind: 1, Key: "k", Value: []byte{byte(i)}})
	}
	// one after the last is the proving ground of a store that nodes share
	for _, number := range []int{-1, last + 2} {
		if _, err := e.store.Shard(number, store.Term{}); err == nil {
			e.Errorf("there is a partition %d of %d", number, last+1)
		}
	}
}

func largeSpecs(e *env) {
	s := e.own(3)
	for i, size := range []int{1 << 10, 1<<10 + 1, 1 << 16, 1 << 20} {
		big := job(fmt.Sprint("big", i), spec(bytes.Repeat([]byte{byte(i + 1)}, size)), due(base))
		s.put(big)
		s.wantRecord(big)
		s.put(job(fmt.Sprint("big", i), stateOnly, due(base+1)))
		s.wantRecord(job(fmt.Sprint("big", i), spec(big.Spec), due(base+1)))
	}
	if got := s.list(store.ListQuery{Namespace: ns, Limit: plenty}); len(got) != 4 || len(got[3].Spec) != 1<<20 {
		e.Errorf("List of large specs gives %d", len(got))
	}
	s.put(job("big3", spec([]byte("small now")), due(base)))
	s.wantRecord(job("big3", spec([]byte("small now")), due(base)))
	s.put(job("big3", stateOnly))
	s.wantRecord(job("big3", spec([]byte("small now"))))
}

func manyRecords(e *env) {
	s := e.own(3)
	const batches, each = 4, 1000
	var names []string
	for b := range batches {
		var batch store.Batch
		for i := range each {
			names = append(names, fmt.Sprintf("job-%05d", i*batches+b))
			batch.Puts = append(batch.Puts, job(names[len(names)-1], due(base+int64(i*batches+b))))
		}
		s.apply(batch)
	}
	slices.Sort(names)
	s.wantNames("List", s.list(store.ListQuery{Limit: plenty}), names...)
	all := s.due(store.DueQuery{Priority: 2, Until: base + batches*each, Limit: plenty})
	s.wantNames("Due", all, names...)
	var gone []store.Ref
	for i := range each {
		gone = append(gone, all[i*batches].Ref)
	}
	s.delete(gone...)
	if got := s.due(store.DueQuery{Priority: 2, Until: base + batches*each,
		Limit: plenty}); len(got) != (batches-1)*each {
		e.Errorf("%d are left of %d", len(got), (batches-1)*each)
	}
}

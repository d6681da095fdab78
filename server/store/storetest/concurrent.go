package storetest

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var concurrentCases = []Case{
	{Name: "concurrent/all partitions at once", check: allPartitionsAtOnce},
	{Name: "concurrent/a read sees whole batches", check: readsSeeWholeBatches},
	{Name: "concurrent/a moving record is seen once", check: movingSeenOnce},
	{Name: "concurrent/reads of all kinds beside writes", check: readsBesideWrites},
}

// allPartitionsAtOnce writes every partition from a goroutine of its own, and reads back what each wrote.
func allPartitionsAtOnce(e *env) {
	const steps = 20
	var wg sync.WaitGroup
	shards := make([]shard, e.store.Meta().Partitions)
	for p := range shards {
		shards[p] = e.own(p)
	}
	for p, s := range shards {
		wg.Go(func() {
			for i := range steps {
				b := store.Batch{Puts: []store.Record{job(fmt.Sprint("job-", i%7),
					spec([]byte{byte(p), byte(i)}), due(base+int64(i)))},
					Runs: []store.RunRecord{s.run("a", int64(i),
						4)}, MetaRecords: []store.MetaRecord{{Kind: 1, Key: "last", Value: []byte{byte(i)}}}}
				if err := s.Apply(s.Context(), &b); err != nil {
					e.Errorf("partition %d: %v", p, err)
				}
			}
		})
	}
	wg.Wait()
	for p, s := range shards {
		var want []store.Record
		for i := steps - 7; i < steps; i++ {
			want = append(want, job(fmt.Sprint("job-", i%7), spec([]byte{byte(p), byte(i)}), due(base+int64(i))))
		}
		s.wantRecords(fmt.Sprint("Due of partition ", p), s.due(allDue(2)), want...)
		s.wantMetaRecords("MetaRecords", s.metaRecords(store.MetaQuery{Kind: 1, Limit: 9}),
			store.MetaRecord{Kind: 1, Key: "last", Value: []byte{steps - 1}})
		if got := s.runsOf(key("a")); len(got) != steps {
			e.Errorf("partition %d has %d runs of %d", p, len(got), steps)
		}
	}
}

// beside calls the reads, again and again, from a few goroutines while n writes are done; the writes begin
// when every reader has begun.
func (e *env) beside(n int, write func(i int), reads ...func()) {
	var wg, begun sync.WaitGroup
	var done atomic.Bool
	for _, read := range reads {
		for range 2 {
			begun.Add(1)
			wg.Go(func() {
				read()
				begun.Done()
				for !done.Load() {
					if e.Failed() {
						return
					}
					read()
					runtime.Gosched() // reads from memory would keep the writes waiting
				}
			})
		}
	}
	begun.Wait()
	for i := range n {
		write(i)
	}
	done.Store(true)
	wg.Wait()
}

// try is the value, or a failed test that goes on: a goroutine cannot end a test.
func try[T any](e *env) func(v T, err error) T {
	return func(v T, err error) T {
		if err != nil {
			e.Error(err)
		}
		return v
	}
}

// readsSeeWholeBatches: each batch gives two jobs the same generation, and moves both in the due index.
func readsSeeWholeBatches(e *env) {
	s := e.own(3)
	pair := func(i int) []store.Record {
		a, b := job("a", due(base+int64(i%5))), job("b", due(base+int64(i%5)))
		a.State.Generation, b.State.Generation = uint64(i), uint64(i)
		return []store.Record{a, b}
	}
	equal := func(what string, got []store.Record) {
		if len(got) != 2 || got[0].State.Generation != got[1].State.Generation {
			e.Errorf("%s sees half a batch: %v", what, canons(got, canonRecord))
		}
	}
	s.put(pair(0)...)
	e.beside(200, func(i int) { s.put(pair(i)...) },
		func() {
			equal("Read", try[[]store.Record](e)(s.Read(s.Context(), []store.Ref{jobRef("a"), jobRef("b")})))
		},
		func() { equal("List", try[[]store.Record](e)(s.List(s.Context(), inNamespace(nil)))) },
		func() { equal("Due", try[[]store.Record](e)(s.Due(s.Context(), allDue(2)))) })
}

// movingSeenOnce: a record that moves about in an index is in every page that covers the index, once, at its
// place.
func movingSeenOnce(e *env) {
	s := e.own(3)
	move := func(i int) store.Record {
		at := base + int64(i*7%13)
		return job("mover", due(at), parked("q", at))
	}
	s.put(job("first", due(base-1), parked("q", base-1)), move(0),
		job("last", due(base+99), parked("q", base+99)))
	once := func(what string, got []store.Record, at func(store.Record) int64) {
		if len(got) != 3 || got[1].Name != "mover" || at(got[1]) != got[1].State.Due || at(got[1]) < base ||
			got[2].Name != "last" {
			e.Errorf("%s: %v", what, canons(got, canonRecord))
		}
	}
	e.beside(200, func(i int) { s.put(move(i)) },
		func() {
			q := store.DueQuery{Priority: 2, Until: math.MaxInt64, Limit: 10}
			once("Due", try[[]store.Record](e)(s.Due(s.Context(), q)),
				func(r store.Record) int64 { return r.State.Due })
		},
		func() {
			got := try[[]store.Record](e)(s.Staged(s.Context(), allStaged("q")))
			once("Staged", got, func(r store.Record) int64 { return r.State.Run.Due })
		})
}

// readsBesideWrites has nothing to find but errors, panics and data races.
func readsBesideWrites(e *env) {
	s := e.own(3)
	_, batch := s.everything()
	e.beside(100, func(i int) {
		s.apply(batch)
		if i%10 == 9 {
			s.delete(jobRef("new"), jobRef("kept"))
		}
	}, func() {
		try[[]store.Record](e)(s.List(s.Context(), store.ListQuery{Limit: 10}))
		try[[]store.Record](e)(s.List(s.Context(), inPhase(carillon.PhaseStaged)))
		try[[]store.Record](e)(s.Due(s.Context(), allDue(2)))
		try[[]store.Record](e)(s.Staged(s.Context(), allStaged("queue")))
		try[[]store.RunRecord](e)(s.Runs(s.Context(), store.RunQuery{Job: new(key("new")), Limit: 10}))
		try[[]store.RunRecord](e)(s.Runs(s.Context(), ended(ns, carillon.RunDead)))
		try[[]store.MetaRecord](e)(s.MetaRecords(s.Context(), store.MetaQuery{Kind: 1, Limit: 10}))
		if _, _, err := s.Live(s.Context(), s.runID(key("new"), 5)); err != nil {
			e.Error(err)
		}
	}, func() {
		try[[]store.Owner](e)(e.leaser().Owners(e.Context()))
		try[[]store.Member](e)(e.leaser().Members(e.Context()))
	})
}

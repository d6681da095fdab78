package storetest

import (
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// gatherCases are about stores that are Gatherers; others pass them.
var gatherCases = []Case{
	{Name: "gather/in the order asked, one kind, in order of key", check: gathering(gatherOrder)},
	{Name: "gather/more than a page", check: gathering(gatherPages)},
	{Name: "gather/an unknown partition", check: gathering(gatherUnknown)},
}

// gathering leaves out what the store does not offer.
func gathering(check func(e *env)) func(e *env) {
	return func(e *env) {
		if _, ok := e.store.(store.Gatherer); ok {
			check(e)
		}
	}
}

// wantGathered checks what is gathered of partitions that hold the given records.
func (e *env) wantGathered(kind byte, partitions []int, want map[int][]store.MetaRecord) {
	e.Helper()
	got, err := e.store.(store.Gatherer).Gather(e.Context(), kind, partitions)
	e.must(err)
	if len(got) != len(partitions) {
		e.Fatalf("gathered %d partitions of %v", len(got), partitions)
	}
	for i, p := range partitions {
		shard{env: e, partition: p}.wantMetaRecords(fmt.Sprint("kind ", kind, " of partition ", p),
			got[i], want[p]...)
	}
}

func gatherOrder(e *env) {
	want := map[byte]map[int][]store.MetaRecord{1: {}, 'n': {}, 255: {}}
	for _, p := range []int{0, 2, 3} {
		var batch store.Batch
		for kind, of := range want {
			for _, name := range oddNames {
				of[p] = append(of[p], metaRecordOf(kind, name))
			}
			batch.MetaRecords = append(batch.MetaRecords, of[p]...)
		}
		e.own(p).apply(batch)
	}
	for kind, of := range want {
		e.wantGathered(kind, []int{3, 0, 1}, of)
		e.wantGathered(kind, []int{2}, of)
		e.wantGathered(kind, nil, of)
	}
	e.wantGathered(7, []int{0, 1, 2, 3}, nil)
}

func gatherPages(e *env) {
	want := map[int][]store.MetaRecord{}
	for p, n := range map[int]int{0: 1, 1: 5000, 2: 4000, 3: 1} {
		for i := range n {
			want[p] = append(want[p], metaRecordOf('n', fmt.Sprintf("%05d", i)))
		}
		e.own(p).apply(store.Batch{MetaRecords: want[p]})
	}
	e.wantGathered('n', []int{2, 0, 3, 1}, want)
}

func gatherUnknown(e *env) {
	for _, p := range []int{-1, e.store.Meta().ProvingGround() + 1} {
		if _, err := e.store.(store.Gatherer).Gather(e.Context(), 'n', []int{0, p}); err == nil {
			e.Errorf("partition %d was gathered", p)
		}
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestSnapshotHasAllThatAMachineNeeds: every record of each kind, however many pages they are, and the runs
// that hold permits. Of backfills it has the unfinished ones.
func TestSnapshotHasAllThatAMachineNeeds(t *testing.T) {
	const n = metaRecordsAtOnce + 7
	b := &store.Batch{Puts: []store.Record{
		recordOf(carillon.Job{Namespace: "ns", Name: "held", Target: carillon.WorkerQueue("q")},
			store.State{Generation: 5}),
		recordOf(carillon.Job{Namespace: "ns", Name: "free", Target: carillon.WorkerQueue("q")},
			store.State{Generation: 6}),
	}}
	add := func(kind byte, prefix string, n int) {
		for i := range n {
			b.MetaRecords = append(b.MetaRecords,
				store.MetaRecord{Kind: kind, Key: fmt.Sprint(prefix, i), Value: []byte{1}})
		}
	}
	for _, kind := range []byte{store.KindParked, store.KindDependency, store.KindNotice, store.KindApplied} {
		add(kind, "k", n)
	}
	add(store.KindBackfill, "u", n)
	add(store.KindBackfill, "f", 3)
	add(store.KindTerms, "k", 3)
	b.MetaRecords = append(b.MetaRecords,
		store.MetaRecord{Kind: store.KindLimited, Key: "limit\x00ns\x00held\x000", Value: []byte{1}})
	_, shards := written(t, b)

	s, err := readSnapshot(t.Context(), 0, shards[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]store.MetaRecord{
		"parked": s.Parked, "dependencies": s.Dependencies, "notices": s.Notices, "applied": s.Applied,
		"backfills": s.Backfills,
	} {
		if len(got) != n {
			t.Errorf("it has %d records of %s, want %d", len(got), name, n)
		}
	}
	if len(s.Limited) != 1 || len(s.InForce) != 1 || s.InForce[0].State.Generation != 5 {
		t.Errorf("permits: %v, held by %v", s.Limited, s.InForce)
	}
}

func keysOf(records []store.MetaRecord) (keys []string) {
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

func TestMetaRecordsAreReadInPages(t *testing.T) {
	for _, n := range []int{0, 1, metaRecordsAtOnce - 1, metaRecordsAtOnce, metaRecordsAtOnce + 1,
		2 * metaRecordsAtOnce} {
		b := &store.Batch{MetaRecords: []store.MetaRecord{{Kind: store.KindNotice, Key: "another",
			Value: []byte{1}}}}
		var want []string
		for i := range n {
			want = append(want, fmt.Sprintf("k%06d", i))
			b.MetaRecords = append(b.MetaRecords,
				store.MetaRecord{Kind: store.KindApplied, Key: want[i], Value: []byte{2}})
		}
		_, shards := written(t, b)
		all, err := AllMetaRecords(t.Context(), shards[0], store.MetaQuery{Kind: store.KindApplied})
		if got := keysOf(all); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d records: %d are read, %v", n, len(got), err)
		}
		all, err = AllMetaRecords(t.Context(), shards[0],
			store.MetaQuery{Kind: store.KindApplied, Prefix: "k00000", Limit: 3})
		if few := keysOf(all); err != nil || !slices.Equal(few, want[:min(n, 10)]) {
			t.Errorf("%d records: with a prefix %q are read, %v", n, few, err)
		}
	}
}

// noRecords is a shard whose metadata records cannot be read.
type noRecords struct{ store.Shard }

func (noRecords) MetaRecords(context.Context, store.MetaQuery) ([]store.MetaRecord, error) {
	return nil, store.ErrDamaged
}

func TestMetaRecordsThatCannotBeRead(t *testing.T) {
	all, err := AllMetaRecords(t.Context(), noRecords{}, store.MetaQuery{Kind: store.KindApplied})
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `'a'`) || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

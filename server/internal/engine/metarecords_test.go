package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/store"
)

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
		all, err := allMetaRecords(t.Context(), shards[0], store.MetaQuery{Kind: store.KindApplied})
		if got := keysOf(all); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d records: %d are read, %v", n, len(got), err)
		}
		all, err = allMetaRecords(t.Context(), shards[0],
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
	all, err := allMetaRecords(t.Context(), noRecords{}, store.MetaQuery{Kind: store.KindApplied})
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `'a'`) || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

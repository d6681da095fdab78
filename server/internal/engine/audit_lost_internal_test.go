package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// lossy has a chain of a partition, of which a store has lost some entries: whatever would read one fails.
type lossy struct {
	store.Shard
	records []store.MetaRecord
	lost    map[string]bool
}

// MetaRecords implements [store.Shard].
func (l *lossy) MetaRecords(_ context.Context, q store.MetaQuery) (some []store.MetaRecord, err error) {
	for _, r := range l.records {
		switch {
		case r.Kind != q.Kind || !strings.HasPrefix(r.Key, q.Prefix) || r.Key <= q.After || len(some) == q.Limit && q.Limit > 0:
		case l.lost[r.Key]:
			return nil, store.ErrDamaged
		default:
			some = append(some, r)
		}
	}
	return some, nil
}

// TestEntriesThatTheStoreHasLost are in the list by their places, and the list goes on behind them, in pages of
// any size and from any time on.
func TestEntriesThatTheStoreHasLost(t *testing.T) {
	const entries = 40
	for _, lost := range [][]int{{1}, {entries}, {7}, {7, 8, 9, 20}, {1, 2, 3}, {38, 39, 40}} {
		l := &lossy{lost: map[string]bool{}}
		var hash []byte
		for n := uint64(1); n <= entries; n++ {
			r := store.MetaRecord{Kind: store.KindAudit, Key: store.AuditKey("c", n),
				Value: codec.AppendAudit(nil, &store.AuditEntry{Time: int64(n) * 1e9, Previous: hash, Action: "PutJob"})}
			hash = store.AuditHash(r.Key, r.Value)
			l.records = append(l.records, r)
		}
		l.records = append(l.records, store.MetaRecord{Kind: store.KindAuditChain, Key: "c", Value: codec.AppendAuditChain(nil,
			&store.AuditChain{First: 1, Last: entries, Hash: hash, Time: entries * 1e9})})
		for _, n := range lost {
			l.lost[store.AuditKey("c", uint64(n))] = true
		}
		a := audits{partitions: &partitions{shards: []store.Shard{l}, macKey: make([]byte, 32)}}
		list := func(q carillon.AuditQuery) (all []string) {
			t.Helper()
			for {
				page, err := a.ListAudit(t.Context(), q)
				if err != nil {
					t.Fatalf("lost %v: %v", lost, err)
				}
				for _, e := range page.Entries {
					if damaged := slices.Contains(lost, int(e.Seq)); damaged != (e.Outcome == auditDamaged) || damaged != (e.Hash == "") {
						t.Errorf("lost %v: %+v", lost, e)
					}
					all = append(all, fmt.Sprint(e.Seq))
				}
				if q.PageToken = page.NextPageToken; q.PageToken == "" {
					return all
				}
			}
		}
		var want []string
		for n := entries; n > 0; n-- {
			want = append(want, fmt.Sprint(n))
		}
		for size := range 12 {
			if got := list(carillon.AuditQuery{PageSize: size}); !slices.Equal(got, want) {
				t.Errorf("lost %v, in pages of %d: %v", lost, size, got)
			}
		}
		for at := int64(1); at <= entries+1; at++ {
			early := list(carillon.AuditQuery{Until: instant(at * 1e9)})
			late := list(carillon.AuditQuery{Since: instant(at * 1e9)})
			if got := slices.Concat(late, early); !slices.Equal(got, want) {
				t.Errorf("lost %v, split at %d: %v", lost, at, got)
			}
		}
	}
}

// TestLostRecordsOfAuditChains: a chain whose record is lost does not hide the others.
func TestLostRecordsOfAuditChains(t *testing.T) {
	l := &lossy{lost: map[string]bool{"b": true}}
	for _, name := range []string{"a", "b", "c"} {
		r := store.MetaRecord{Kind: store.KindAudit, Key: store.AuditKey(name, 1),
			Value: codec.AppendAudit(nil, &store.AuditEntry{Time: 1e9})}
		l.records = append(l.records, r, store.MetaRecord{Kind: store.KindAuditChain, Key: name,
			Value: codec.AppendAuditChain(nil, &store.AuditChain{First: 1, Last: 1, Time: 1e9})})
	}
	a := audits{partitions: &partitions{shards: []store.Shard{l}, macKey: make([]byte, 32)}}
	page, err := a.ListAudit(t.Context(), carillon.AuditQuery{})
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
}

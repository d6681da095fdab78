package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
)

// lossy is a shard that has lost some metadata records: it answers no query that would have one of them.
type lossy struct {
	store.Shard
	lost map[string]bool // by kind and key
	once bool            // it is there again when it was asked for
	asks int
}

func (l *lossy) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	l.asks++
	page, err := l.Shard.MetaRecords(ctx, q)
	for i := range page {
		if k := string(page[i].Kind) + page[i].Key; l.lost[k] {
			l.lost[k] = !l.once
			return nil, fmt.Errorf("a table: %w", store.ErrDamaged)
		}
	}
	return page, err
}

// TestExamineGoesOnBehindLosses: what the store has lost is what is wrong with its chain; the others are
// examined.
func TestExamineGoesOnBehindLosses(t *testing.T) {
	s := memory.New(memory.Options{Partitions: 1})
	terms, err := s.Leaser().Claim(t.Context(), "n", []int{0}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(0, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{}
	for _, name := range []string{"1-1-a", "1-1-b", "1-1-c"} {
		head := store.AuditChain{First: 1}
		for i := range 1500 {
			e := store.AuditEntry{Previous: head.Hash, Time: int64(i + 1)}
			key, value := store.AuditKey(name, head.Last+1), codec.AppendAudit(nil, &e)
			b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindAudit, Key: key, Value: value})
			head.Last, head.Hash = head.Last+1, store.AuditHash(key, value)
		}
		b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindAuditChain, Key: name,
			Value: codec.AppendAuditChain(nil, &head)})
	}
	if err := shard.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	entry, chain := string(store.KindAudit), string(store.KindAuditChain)
	for what, c := range map[string]struct {
		lost []string
		want []string // of each chain, what is said of it; empty: nothing is wrong
	}{
		"nothing":                {nil, []string{"", "", ""}},
		"an entry":               {[]string{entry + store.AuditKey("1-1-b", 1207)}, []string{"", "entry 1207,", ""}},
		"the first entry":        {[]string{entry + store.AuditKey("1-1-a", 1)}, []string{"entry 1,", "", ""}},
		"the last entry of all":  {[]string{entry + store.AuditKey("1-1-c", 1500)}, []string{"", "", "entry 1500,"}},
		"the record of a chain":  {[]string{chain + "1-1-b"}, []string{"", "the record", "", "there may be more"}},
		"a record and its entry": {[]string{chain + "1-1-a", entry + store.AuditKey("1-1-a", 1)}, []string{"there may be more"}},
	} {
		l := &lossy{Shard: shard, lost: map[string]bool{}}
		for _, k := range c.lost {
			l.lost[k] = true
		}
		all, err := audit.Examine(t.Context(), l, 0, nil)
		if err != nil || len(all) != len(c.want) {
			t.Errorf("%s: %d chains, %v", what, len(all), err)
			continue
		}
		for i, want := range c.want {
			if got := all[i].Broken; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
	}
	once := &lossy{Shard: shard, lost: map[string]bool{entry + store.AuditKey("1-1-a", 3): true}, once: true}
	if all, err := audit.Examine(t.Context(), once, 0, nil); err != nil || len(all) != 3 || all[0].Broken != "" || once.asks > 50 {
		t.Errorf("an entry that could not be read once: %+v, %v, after %d reads", all, err, once.asks)
	}
	// A chain without a record, before one that is whole.
	if err := shard.Apply(t.Context(), &store.Batch{MetaRecords: []store.MetaRecord{
		{Kind: store.KindAuditChain, Key: "1-1-b"}}}); err != nil {
		t.Fatal(err)
	}
	unknown := &lossy{Shard: shard, lost: map[string]bool{entry + store.AuditKey("1-1-b", 1): true}}
	all, err := audit.Examine(t.Context(), unknown, 0, nil)
	if err != nil || len(all) != 3 || all[0].Broken != "" || all[1].Broken != "" || !strings.HasPrefix(all[2].Broken, "there may be more") {
		t.Errorf("an entry of a chain without a record is lost: %+v, %v", all, err)
	}
	away := errors.New("away")
	if _, err := audit.Examine(t.Context(), &unanswered{shard, away}, 0, nil); !errors.Is(err, away) {
		t.Errorf("a store that does not answer: %v", err)
	}
}

type unanswered struct {
	store.Shard
	err error
}

func (u *unanswered) MetaRecords(context.Context, store.MetaQuery) ([]store.MetaRecord, error) {
	return nil, u.err
}

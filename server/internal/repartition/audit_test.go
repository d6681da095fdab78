package repartition_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/repartition"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestAuditChainsAreClosed: each is whole in its new place, with the head that was noted, and nothing is added
// to it any more.
func TestAuditChainsAreClosed(t *testing.T) {
	from := memory.New(memory.Options{Partitions: 4})
	var noted []carillon.AuditHead
	for p := range 4 {
		terms := must[[]store.Term](t)(from.Leaser().Claim(t.Context(), "n", []int{p}, 1))
		chain := store.AuditChain{First: 1}
		b := &store.Batch{}
		name := store.AuditName(p, terms[0])
		for range p + 1 {
			e := store.AuditEntry{Previous: chain.Hash, Action: "PutJob"}
			key, value := store.AuditKey(name, chain.Last+1), codec.AppendAudit(nil, &e)
			b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindAudit, Key: key, Value: value})
			chain.Last, chain.Hash = chain.Last+1, store.AuditHash(key, value)
		}
		b.MetaRecords = append(b.MetaRecords, store.MetaRecord{Kind: store.KindAuditChain, Key: name,
			Value: codec.AppendAuditChain(nil, &chain)})
		if err := must[store.Shard](t)(from.Shard(p, terms[0])).Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		noted = append(noted, carillon.AuditHead{Chain: name, Seq: chain.Last, Hash: fmt.Sprintf("%x", chain.Hash)})
		if err := from.Leaser().Release(t.Context(), "n", []store.Holding{{Partition: p, Term: terms[0]}}); err != nil {
			t.Fatal(err)
		}
	}
	open := inMemory()
	if _, err := transfer.MigrateAs(t.Context(), from, open, repartition.To(3), nil); err != nil {
		t.Fatal(err)
	}
	to := must[store.Store](t)(open(context.Background(), store.Options{}))
	heads := map[string][]carillon.AuditHead{}
	for _, h := range noted {
		heads[h.Chain] = append(heads[h.Chain], h)
	}
	var all []carillon.AuditChain
	for p := range 3 {
		shard := must[store.Shard](t)(to.Shard(p, store.Term{}))
		all = append(all, must[[]carillon.AuditChain](t)(audit.Examine(t.Context(), shard, p, heads))...)
	}
	all = audit.Missing(all, noted)
	for i := range all {
		if c := &all[i]; c.Broken != "" || !c.Closed {
			t.Errorf("%s: closed %v, %s", c.String(), c.Closed, c.Broken)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d chains", len(all))
	}
	sound(t, to, "moved")
}

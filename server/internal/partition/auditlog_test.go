package partition_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/audit"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// wantChains checks that what the store has are so many whole chains, with so many entries.
func (r *rig) wantChains(chains, entries int) {
	r.t.Helper()
	all, err := audit.Examine(context.Background(), r.shard, 0, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for i := range all {
		if n += int(all[i].Entries); all[i].Broken != "" {
			r.t.Fatalf("chain %s: %s", all[i].Chain, all[i].Broken)
		}
	}
	if len(all) != chains || n != entries {
		r.t.Fatalf("%d chains with %d entries, want %d with %d", len(all), n, chains, entries)
	}
}

func (r *rig) record(resource string) {
	r.m.Begin()
	r.m.Audit.Add(r.now, store.AuditEntry{Action: "PutJob", Resource: resource})
}

// TestAuditIsInTheBatch: an entry is durable with its batch, or lost with it; another term goes on with the
// chain as the store has it.
func TestAuditIsInTheBatch(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.wantChains(0, 0)
	r.record("a")
	r.record("b")
	r.wantChains(0, 0)
	r.land()
	r.wantChains(1, 2)
	r.record("lost")
	r.take()
	r.record("lost, too")
	r.start()
	r.wantChains(1, 2)
	for i := range 5 {
		r.record(fmt.Sprint(i))
		if i%2 == 0 {
			r.take() // a batch is in flight while the next one fills
		}
		r.land()
	}
	r.restart()
	r.record("last")
	r.land()
	r.wantChains(1, 8)
}

// TestADamagedAuditChain: another one begins, and the entries of the damaged one stay.
func TestADamagedAuditChain(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.record("a")
	r.land()
	chain := r.small(store.KindAuditChain)[0].Key
	if err := r.shard.Apply(context.Background(), &store.Batch{MetaRecords: []store.MetaRecord{
		{Kind: store.KindAuditChain, Key: chain, Value: []byte{0xff}}}}); err != nil {
		t.Fatal(err)
	}
	m, _, err := partition.Open(partition.Config{MACKey: r.store.Meta().MACKey, Term: store.Term{Epoch: 9, Nonce: 9}},
		&partition.Snapshot{AuditChains: r.small(store.KindAuditChain)})
	if err == nil {
		t.Error("nothing is said of it")
	}
	r.m = m
	r.record("b")
	b, _ := m.Batch()
	for _, s := range b.MetaRecords {
		if s.Key == chain || s.Key == store.AuditKey(chain, 2) {
			t.Errorf("%q is written", s.Key)
		}
	}
}

// TestAuditTimes never decrease, even if the clock does.
func TestAuditTimes(t *testing.T) {
	r := newRig(t, partition.Config{})
	r.record("a")
	r.now -= int64(time.Hour)
	r.record("b")
	r.land()
	r.wantChains(1, 2)
	chains := r.small(store.KindAuditChain)
	r.restart()
	if again := r.small(store.KindAuditChain); fmt.Sprint(again) != fmt.Sprint(chains) {
		t.Errorf("a term without entries has written %v", again)
	}
}

package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestOneBatchHoldsEachMetaRecordOnce: the last of those with one key, in the order in which they were
// written.
func TestOneBatchHoldsEachMetaRecordOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		type key struct {
			kind byte
			key  string
		}
		want := map[key]int{} // where the last one is
		all := make([]store.MetaRecord, rng.IntN(20))
		for i := range all {
			all[i] = store.MetaRecord{Kind: byte('a' + rng.IntN(2)), Key: fmt.Sprint(rng.IntN(4)),
				Value: []byte{byte(i)}}
			want[key{all[i].Kind, all[i].Key}] = i
		}
		before := -1
		for _, r := range lastOf(all) {
			at := int(r.Value[0])
			if want[key{r.Kind, r.Key}] != at || at <= before {
				t.Fatalf("of %v record %d is kept after %d", all, at, before)
			}
			before = at
			delete(want, key{r.Kind, r.Key})
		}
		if len(want) > 0 {
			t.Fatalf("of %v these are lost: %v", all, want)
		}
	}
}

// TestABatchIsFilledWhileAnotherIsOnItsWay: what changes meanwhile is in the next one, and answers wait for
// the batch that holds their change.
func TestABatchIsFilledWhileAnotherIsOnItsWay(t *testing.T) {
	m := newMachine(Config{})
	e := &entry{ref: store.Ref{Key: carillon.Key{Namespace: "ns", Name: "a"}}, timer: -1,
		state: store.State{Next: 5}}
	m.Records.entries[e.ref] = e
	m.contents.set(e, []byte{})
	if b, _ := m.Batch(); b != nil || m.Newest() != m.out.seq-1 {
		t.Fatalf("there is a batch before anything has changed, and answers wait for %d", m.Newest())
	}
	change := func() uint64 {
		m.Begin()
		m.due.touch(e)
		return m.After()
	}
	first := change()
	if again := change(); again != first || m.Newest() != first {
		t.Fatalf("two changes are in batches %d and %d", first, again)
	}
	b, seq := m.Batch()
	if b == nil || seq != first || len(b.Puts) != 1 {
		t.Fatalf("batch %d is %+v, want %d", seq, b, first)
	}
	second := change()
	if second != first+1 || !m.out.awaitsCommit(e) {
		t.Fatalf("a change during batch %d is in %d", first, second)
	}
	m.Committed(first, 0)
	if !m.out.dirty(e) || !m.out.awaitsCommit(e) {
		t.Error("the later change is taken for durable")
	}
	if _, seq := m.Batch(); seq != second {
		t.Errorf("the next batch is %d, want %d", seq, second)
	}
	if m.Committed(second, 0); m.out.dirty(e) || m.out.awaitsCommit(e) || m.Newest() != second {
		t.Errorf("all is durable, and answers wait for batch %d", m.Newest())
	}
}

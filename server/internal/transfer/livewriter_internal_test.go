package transfer

import (
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// TestWriterKnows: the state of a record that is not there is written only when all contents have come, and
// there are no such records.
func TestWriterKnows(t *testing.T) {
	s := memory.New(memory.Options{Partitions: 1})
	terms, err := s.Leaser().Claim(t.Context(), "n", []int{0}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(0, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{shard: shard, counted: &counter{}}
	there, absent := carillon.Key{Namespace: "n", Name: "there"}, carillon.Key{Namespace: "n", Name: "absent"}
	for _, is := range []written{
		{batch: &store.Batch{Puts: []store.Record{{Ref: store.Ref{Key: there}, Spec: []byte("spec")}}}},
		{change: true, batch: &store.Batch{Puts: []store.Record{
			{Ref: store.Ref{Key: there}, State: store.State{Due: 7}},
			{Ref: store.Ref{Key: absent}, State: store.State{Due: 7}},
			{Ref: store.Ref{Key: there, Seq: 1}, State: store.State{Due: 8}}, // it has the spec of its job
		}}},
	} {
		if err := w.do(t.Context(), is); err != nil {
			t.Fatal(err)
		}
	}
	found, err := shard.Read(t.Context(), []store.Ref{{Key: there}, {Key: absent}, {Key: there, Seq: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if r := found[0]; string(r.Spec) != "spec" || r.State.Due != 7 {
		t.Errorf("the one that is there: %+v", r)
	}
	if found[1].Exists || !found[2].Exists {
		t.Errorf("absent: %v, pending: %v", found[1].Exists, found[2].Exists)
	}
	if w.counted.counts.Records != 1 {
		t.Errorf("counted: %+v", w.counted.counts)
	}
	if err := w.do(t.Context(), written{again: true}); err != nil {
		t.Fatal(err)
	}
	if all, err := shard.List(t.Context(), store.ListQuery{Limit: 9, Pending: true}); err != nil || len(all) > 0 {
		t.Errorf("when it begins again there is %v, %v", all, err)
	}
}

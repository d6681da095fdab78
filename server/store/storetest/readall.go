package storetest

import (
	"reflect"

	"github.com/carillonhq/carillon/server/store"
)

// readCases are about stores that are Readers; others pass them.
var readCases = []Case{
	{Name: "read/of several partitions is as of each", check: readsOfSeveral},
}

// readsOfSeveral: what is read at once is what is read one by one, be it there, elsewhere, or nowhere.
func readsOfSeveral(e *env) {
	reader, ok := e.store.(store.Reader)
	if !ok {
		return
	}
	shards := e.fourPartitions()
	var asked []store.Asked
	for i, s := range shards {
		s.put(job("a", due(int64(i))), job("b", due(int64(10*i))))
		if i == 1 {
			s.delete(jobRef("b"))
		}
		refs := []store.Ref{jobRef("b"), jobRef("absent"), jobRef("a"), pendingRef("a", 1)}
		asked = append(asked, store.Asked{Shard: s.Shard, Refs: refs[:len(refs)-i]})
	}
	asked = append(asked, store.Asked{Shard: e.at(1, store.Term{}).Shard, Refs: []store.Ref{jobRef("a")}},
		store.Asked{Shard: shards[0].Shard})
	got, err := reader.ReadAll(e.Context(), asked)
	e.must(err)
	if len(got) != len(asked) {
		e.Fatalf("%d answers to %d questions", len(got), len(asked))
	}
	for i, a := range asked {
		want, err := a.Shard.Read(e.Context(), a.Refs)
		e.must(err)
		if len(got[i]) != len(want) || len(want) > 0 && !reflect.DeepEqual(got[i], want) {
			e.Errorf("question %d: got %+v, want %+v", i, got[i], want)
		}
	}
	if none, err := reader.ReadAll(e.Context(), nil); err != nil || len(none) != 0 {
		e.Errorf("of nothing: %v, %v", none, err)
	}
}

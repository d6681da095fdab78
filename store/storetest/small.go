package storetest

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/store"
)

var smallCases = []Case{
	{Name: "small/in order of key, one kind", check: smallOrder},
	{Name: "small/a put replaces, a nil value deletes", check: smallReplaces},
	{Name: "small/by prefix, after a key, in pages", check: smallPages},
	{Name: "small/apart from records", check: smallApart},
}

func smallOf(kind byte, key string) store.MetaRecord {
	return store.MetaRecord{Kind: kind, Key: key, Value: fmt.Append(nil, kind, key)}
}

func smallOrder(e *env) {
	s := e.own(3)
	for _, kind := range []byte{0, 1, 2, 'a', 255} {
		var batch store.Batch
		for _, name := range slices.Backward(oddNames) {
			batch.MetaRecords = append(batch.MetaRecords, smallOf(kind, name))
		}
		s.apply(batch)
	}
	s.apply(store.Batch{MetaRecords: []store.MetaRecord{smallOf(7, "")}})
	for _, kind := range []byte{0, 1, 2, 'a', 255} {
		var want []store.MetaRecord
		for _, name := range oddNames {
			want = append(want, smallOf(kind, name))
		}
		s.wantSmall(fmt.Sprint("kind ", kind), s.small(store.MetaQuery{Kind: kind, Limit: plenty}), want...)
	}
	s.wantSmall("the empty key", s.small(store.MetaQuery{Kind: 7, Limit: plenty}), smallOf(7, ""))
	s.wantSmall("a kind of nobody", s.small(store.MetaQuery{Kind: 3, Limit: plenty}))
}

func smallReplaces(e *env) {
	s := e.own(3)
	put := func(value []byte) []store.MetaRecord {
		s.apply(store.Batch{MetaRecords: []store.MetaRecord{{Kind: 1, Key: "k", Value: value}}})
		return s.small(store.MetaQuery{Kind: 1, Limit: plenty})
	}
	long := slices.Repeat([]byte{0, 255}, 5000)
	s.wantSmall("first", put([]byte("1")), store.MetaRecord{Kind: 1, Key: "k", Value: []byte("1")})
	s.wantSmall("second", put(long), store.MetaRecord{Kind: 1, Key: "k", Value: long})
	s.wantSmall("an empty value stays", put([]byte{}), store.MetaRecord{Kind: 1, Key: "k"})
	s.wantSmall("deleted", put(nil))
	s.wantSmall("deleted again", put(nil))
	s.wantSmall("back", put([]byte("2")), store.MetaRecord{Kind: 1, Key: "k", Value: []byte("2")})
}

func smallPages(e *env) {
	s := e.own(3)
	var all []store.MetaRecord
	for _, key := range []string{"a", "a/1", "a/1/x", "a/2", "a0", "b/1"} {
		all = append(all, smallOf(1, key), smallOf(2, key))
	}
	s.apply(store.Batch{MetaRecords: all})
	all = slices.DeleteFunc(all, func(x store.MetaRecord) bool { return x.Kind != 1 })
	s.wantSmall("prefix a/", s.small(store.MetaQuery{Kind: 1, Prefix: "a/", Limit: plenty}), all[1:4]...)
	s.wantSmall("prefix a/ after a/1", s.small(store.MetaQuery{Kind: 1, Prefix: "a/", After: "a/1", Limit: plenty}), all[2:4]...)
	s.wantSmall("prefix a/ after a", s.small(store.MetaQuery{Kind: 1, Prefix: "a/", After: "a", Limit: plenty}), all[1:4]...)
	s.wantSmall("prefix a/ after b", s.small(store.MetaQuery{Kind: 1, Prefix: "a/", After: "b", Limit: plenty}))
	s.wantSmall("after what is not there", s.small(store.MetaQuery{Kind: 1, After: "a/1/y", Limit: plenty}), all[3:]...)
	checkPages(e, all, canonSmall, func(after *store.MetaRecord, limit int) []store.MetaRecord {
		q := store.MetaQuery{Kind: 1, Limit: limit}
		if after != nil {
			q.After = after.Key
		}
		return s.small(q)
	})
}

func smallApart(e *env) {
	s := e.own(3)
	s.apply(store.Batch{Puts: []store.Record{everywhere(jobRef("a"))}, MetaRecords: []store.MetaRecord{smallOf('a', "a"), smallOf('d', ns)}})
	s.delete(jobRef("a"))
	s.wantSmall("kind a", s.small(store.MetaQuery{Kind: 'a', Limit: plenty}), smallOf('a', "a"))
	s.wantSmall("kind d", s.small(store.MetaQuery{Kind: 'd', Limit: plenty}), smallOf('d', ns))
	s.put(everywhere(jobRef("a")))
	s.apply(store.Batch{MetaRecords: []store.MetaRecord{{Kind: 'a', Key: "a"}}})
	s.wantRecord(everywhere(jobRef("a")))
}

package storetest

import (
	"fmt"
	"slices"

	"github.com/carillonhq/carillon/server/store"
)

var metaCases = []Case{
	{Name: "metadata/in order of key, one kind", check: metaOrder},
	{Name: "metadata/a put replaces, a nil value deletes", check: metaReplaces},
	{Name: "metadata/by prefix, after a key, in pages", check: metaPages},
	{Name: "metadata/apart from records", check: metaApart},
}

func metaRecordOf(kind byte, key string) store.MetaRecord {
	return store.MetaRecord{Kind: kind, Key: key, Value: fmt.Append(nil, kind, key)}
}

func metaOrder(e *env) {
	s := e.own(3)
	for _, kind := range []byte{0, 1, 2, 'a', 255} {
		var batch store.Batch
		for _, name := range slices.Backward(oddNames) {
			batch.MetaRecords = append(batch.MetaRecords, metaRecordOf(kind, name))
		}
		s.apply(batch)
	}
	s.apply(store.Batch{MetaRecords: []store.MetaRecord{metaRecordOf(7, "")}})
	for _, kind := range []byte{0, 1, 2, 'a', 255} {
		var want []store.MetaRecord
		for _, name := range oddNames {
			want = append(want, metaRecordOf(kind, name))
		}
		s.wantMetaRecords(fmt.Sprint("kind ", kind),
			s.metaRecords(store.MetaQuery{Kind: kind, Limit: plenty}), want...)
	}
	s.wantMetaRecords("the empty key", s.metaRecords(store.MetaQuery{Kind: 7, Limit: plenty}),
		metaRecordOf(7, ""))
	s.wantMetaRecords("a kind of nobody", s.metaRecords(store.MetaQuery{Kind: 3, Limit: plenty}))
}

func metaReplaces(e *env) {
	s := e.own(3)
	put := func(value []byte) []store.MetaRecord {
		s.apply(store.Batch{MetaRecords: []store.MetaRecord{{Kind: 1, Key: "k", Value: value}}})
		return s.metaRecords(store.MetaQuery{Kind: 1, Limit: plenty})
	}
	long := slices.Repeat([]byte{0, 255}, 5000)
	s.wantMetaRecords("first", put([]byte("1")), store.MetaRecord{Kind: 1, Key: "k", Value: []byte("1")})
	s.wantMetaRecords("second", put(long), store.MetaRecord{Kind: 1, Key: "k", Value: long})
	s.wantMetaRecords("an empty value stays", put([]byte{}), store.MetaRecord{Kind: 1, Key: "k"})
	s.wantMetaRecords("deleted", put(nil))
	s.wantMetaRecords("deleted again", put(nil))
	s.wantMetaRecords("back", put([]byte("2")), store.MetaRecord{Kind: 1, Key: "k", Value: []byte("2")})
}

func metaPages(e *env) {
	s := e.own(3)
	var all []store.MetaRecord
	for _, key := range []string{"a", "a/1", "a/1/x", "a/2", "a0", "b/1"} {
		all = append(all, metaRecordOf(1, key), metaRecordOf(2, key))
	}
	s.apply(store.Batch{MetaRecords: all})
	all = slices.DeleteFunc(all, func(x store.MetaRecord) bool { return x.Kind != 1 })
	s.wantMetaRecords("prefix a/", s.metaRecords(store.MetaQuery{Kind: 1, Prefix: "a/", Limit: plenty}),
		all[1:4]...)
	s.wantMetaRecords("prefix a/ after a/1",
		s.metaRecords(store.MetaQuery{Kind: 1, Prefix: "a/", After: "a/1", Limit: plenty}), all[2:4]...)
	s.wantMetaRecords("prefix a/ after a",
		s.metaRecords(store.MetaQuery{Kind: 1, Prefix: "a/", After: "a", Limit: plenty}), all[1:4]...)
	s.wantMetaRecords("prefix a/ after b",
		s.metaRecords(store.MetaQuery{Kind: 1, Prefix: "a/", After: "b", Limit: plenty}))
	s.wantMetaRecords("after what is not there",
		s.metaRecords(store.MetaQuery{Kind: 1, After: "a/1/y", Limit: plenty}), all[3:]...)
	checkPages(e, all, canonMetaRecords, func(after *store.MetaRecord, limit int) []store.MetaRecord {
		q := store.MetaQuery{Kind: 1, Limit: limit}
		if after != nil {
			q.After = after.Key
		}
		return s.metaRecords(q)
	})
}

func metaApart(e *env) {
	s := e.own(3)
	s.apply(store.Batch{Puts: []store.Record{everywhere(jobRef("a"))},
		MetaRecords: []store.MetaRecord{metaRecordOf('a', "a"), metaRecordOf('d', ns)}})
	s.delete(jobRef("a"))
	s.wantMetaRecords("kind a", s.metaRecords(store.MetaQuery{Kind: 'a', Limit: plenty}), metaRecordOf('a', "a"))
	s.wantMetaRecords("kind d", s.metaRecords(store.MetaQuery{Kind: 'd', Limit: plenty}), metaRecordOf('d', ns))
	s.put(everywhere(jobRef("a")))
	s.apply(store.Batch{MetaRecords: []store.MetaRecord{{Kind: 'a', Key: "a"}}})
	s.wantRecord(everywhere(jobRef("a")))
}

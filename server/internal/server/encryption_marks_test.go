package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/sealed"
)

// sealMark writes the mark of a key.
func sealMark(t *testing.T, s store.Store, partition int, key string) {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), "n", []int{partition}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(partition, terms[0])
	if err != nil {
		t.Fatal(err)
	}
	m := store.MetaRecord{Kind: store.KindSeal, Key: key, Value: []byte{1, 2}}
	if err := shard.Apply(t.Context(), &store.Batch{MetaRecords: []store.MetaRecord{m}}); err != nil {
		t.Fatal(err)
	}
}

// unreadable is a store whose first partition cannot be read, nor all together.
type unreadable struct{ *memory.Store }

// Gather implements [store.Gatherer].
func (unreadable) Gather(context.Context, byte, []int) ([][]store.MetaRecord, error) {
	return nil, store.ErrDamaged
}

// Shard implements [store.Store].
func (u unreadable) Shard(p int, term store.Term) (store.Shard, error) {
	s, err := u.Store.Shard(p, term)
	if p == 0 {
		s = noRecords{s}
	}
	return s, err
}

type noRecords struct{ store.Shard }

// MetaRecords implements [store.Shard].
func (noRecords) MetaRecords(context.Context, store.MetaQuery) ([]store.MetaRecord, error) {
	return nil, store.ErrDamaged
}

// TestAMissingKeyBesideDamage: what is damaged in one partition does not hide that another needs a key.
func TestAMissingKeyBesideDamage(t *testing.T) {
	s := memory.New(memory.Options{Partitions: 3})
	none := unreadable{memory.New(memory.Options{Partitions: 3})}
	if err := server.StoredMarks(t.Context(), none, store.CheckUnsealed); err != nil {
		t.Errorf("a partition that is damaged, and no key: %v", err)
	}
	keys := newKeysFile(t)
	has, err := keys.Read()
	if err != nil {
		t.Fatal(err)
	}
	check := sealed.New(has).Check
	sealMark(t, s, 1, "no mark")
	if err := server.StoredMarks(t.Context(), s, check); err != nil {
		t.Errorf("a mark that is damaged, and no key: %v", err)
	}
	sealMark(t, s, 1, "zzz")
	sealMark(t, s, 2, "0badcafe")
	sealMark(t, s, 2, "a mark before it")
	for what, s := range map[string]store.Store{"a damaged partition": unreadable{s}, "damaged marks": s} {
		err := server.StoredMarks(t.Context(), s, check)
		if !errors.Is(err, store.ErrSealed) || !strings.Contains(fmt.Sprint(err), "0badcafe") {
			t.Errorf("%s: %v, want the key 0badcafe to be missing", what, err)
		}
	}
}

package sealed_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/carillonhq/carillon/server/internal/keyset"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/sealed"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// newKeys makes a file with a key, and reads it.
func newKeys(t testing.TB) (keyset.File, *keyset.Keys) {
	t.Helper()
	f := keyset.File{Path: filepath.Join(t.TempDir(), "keys.json")}
	k, err := f.Create()
	if err != nil {
		t.Fatal(err)
	}
	return f, k
}

// under is a store as an engine with keys has it.
type under struct {
	store.Store
	box *sealed.Box
}

func (u *under) Shard(partition int, term store.Term) (store.Shard, error) {
	s, err := u.Store.Shard(partition, term)
	if err != nil {
		return nil, err
	}
	return u.box.Shard(s), nil
}

func (u *under) ApplyGroup(ctx context.Context, writes []store.Write) error {
	writes, err := u.box.Writes(writes)
	if err != nil {
		return err
	}
	return u.Store.(store.Grouper).ApplyGroup(ctx, writes)
}

// TestAStoreIsTheSameWithKeys: all that is promised of a store holds of one whose records are encrypted.
func TestAStoreIsTheSameWithKeys(t *testing.T) {
	_, keys := newKeys(t)
	storetest.RunOptions(t, storetest.Options{Seeds: 5, Rounds: 50, Open: func(testing.TB) store.Store {
		return &under{memory.New(memory.Options{}), sealed.New(keyset.NewSet(keys))}
	}})
}

// opened claims a partition of a store.
func opened(t *testing.T, s store.Store, box *sealed.Box, partition int) (below, above store.Shard) {
	t.Helper()
	terms, err := s.Leaser().Claim(t.Context(), "node", []int{partition}, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if below, err = s.Shard(partition, terms[0]); err != nil {
		t.Fatal(err)
	}
	return below, box.Shard(below)
}

func apply(t *testing.T, s store.Shard, b *store.Batch) {
	t.Helper()
	if err := s.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func marks(t *testing.T, s store.Shard) (ids []string, all []store.MetaRecord) {
	t.Helper()
	all, err := s.MetaRecords(t.Context(), store.SealMarks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		ids = append(ids, r.Key)
	}
	return ids, all
}

func id(k *keyset.Keys) string { return fmt.Sprintf("%08x", k.Primary()) }

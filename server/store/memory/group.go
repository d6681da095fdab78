package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillonhq/carillon/server/store"
)

var _ store.Grouper = (*Store)(nil)

// ApplyGroup makes all batches visible, or none.
func (s *Store) ApplyGroup(ctx context.Context, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	shards := make([]*shard, len(writes))
	for i, w := range writes {
		sh, ok := w.Shard.(*shard)
		if !ok || s.partitions[sh.p.number] != sh.p {
			return store.ErrOtherStore
		}
		shards[i] = sh
	}
	defer lockAll(shards)()
	for _, sh := range shards {
		if err := sh.p.writable(sh.term); err != nil {
			return err
		}
	}
	for i, sh := range shards {
		sh.p.holds.Change(writes[i].Batch, nil)
	}
	return nil
}

// lockAll locks the shards' partitions in order of number, so that two groups never wait for each other.
func lockAll(shards []*shard) (unlock func()) {
	inOrder := slices.SortedFunc(slices.Values(shards), func(a, b *shard) int {
		return cmp.Compare(a.p.number, b.p.number)
	})
	for _, sh := range inOrder {
		sh.p.mu.Lock()
	}
	return func() {
		for _, sh := range inOrder {
			sh.p.mu.Unlock()
		}
	}
}

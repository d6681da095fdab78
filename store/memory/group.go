package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillonhq/carillon/store"
)

// ApplyGroup is for [store.Grouper]: it holds the locks of all partitions meanwhile.
func (s *Store) ApplyGroup(ctx context.Context, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	shards := make([]*shard, len(writes))
	for i, w := range writes {
		shards[i] = w.Shard.(*shard)
	}
	inOrder := slices.SortedFunc(slices.Values(shards), func(a, b *shard) int { // so that no two groups wait for each other
		return cmp.Compare(a.p.owner.Partition, b.p.owner.Partition)
	})
	for _, sh := range inOrder {
		sh.p.mu.Lock()
		defer sh.p.mu.Unlock()
	}
	for _, sh := range inOrder {
		if err := sh.p.takes(sh.term); err != nil {
			return err
		}
	}
	for i, sh := range shards {
		sh.p.change(writes[i].Batch)
	}
	return nil
}

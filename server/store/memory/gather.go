package memory

import (
	"context"
	"math"

	"github.com/carillonhq/carillon/server/store"
)

var _ store.Gatherer = (*Store)(nil)

// Gather implements [store.Gatherer].
func (s *Store) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	out := make([][]store.MetaRecord, len(partitions))
	for i, p := range partitions {
		shard, err := s.Shard(p, store.Term{})
		if err != nil {
			return nil, err
		}
		if out[i], err = shard.MetaRecords(ctx, store.MetaQuery{Kind: kind, Limit: math.MaxInt}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

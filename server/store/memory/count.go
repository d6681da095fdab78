package memory

import (
	"context"
	"math"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var _ store.Counter = (*Store)(nil)

// Count implements [store.Counter].
func (s *Store) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	out := make([]store.Counts, len(partitions))
	for i, number := range partitions {
		if _, err := s.Shard(number, store.Term{}); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = store.NewCounts()
		s.partitions[number].count(&out[i])
	}
	return out, nil
}

// count adds what the partition holds.
func (p *partition) count(out *store.Counts) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.records.staged.Scan(func(r *store.Record) bool {
		out.AddStaged(r.State.Queue, 1, r.State.Run.Due)
		return true
	})
	first := &store.RunRecord{Status: carillon.RunDead, Finished: math.MaxInt64}
	p.history.byStatus.Ascend(first, func(r *store.RunRecord) bool {
		if r.Status == carillon.RunDead {
			out.Dead[r.Key.Namespace]++
		}
		return r.Status == carillon.RunDead
	})
}

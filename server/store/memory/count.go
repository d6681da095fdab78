package memory

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

var _ store.Counter = (*Store)(nil)

// Count implements [store.Counter].
func (s *Store) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	return countEach(ctx, s, partitions, (*contents.Partition).Count)
}

// CountJobs implements [store.Counter].
func (s *Store) CountJobs(ctx context.Context, partitions []int) ([]int, error) {
	return countEach(ctx, s, partitions, (*contents.Partition).CountJobs)
}

func countEach[T any](ctx context.Context, s *Store, partitions []int,
	count func(*contents.Partition) T) ([]T, error) {
	out := make([]T, len(partitions))
	for i, number := range partitions {
		if _, err := s.Shard(number, store.Term{}); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = counted(s.partitions[number], count)
	}
	return out, nil
}

// counted counts one partition under its lock.
func counted[T any](p *partition, count func(*contents.Partition) T) T {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return count(p.holds)
}

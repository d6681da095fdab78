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
	return countEach(ctx, s, partitions, (*partition).count)
}

// CountJobs implements [store.Counter].
func (s *Store) CountJobs(ctx context.Context, partitions []int) ([]int, error) {
	return countEach(ctx, s, partitions, (*partition).countJobs)
}

func countEach[T any](ctx context.Context, s *Store, partitions []int,
	count func(*partition) T) ([]T, error) {
	out := make([]T, len(partitions))
	for i, number := range partitions {
		if _, err := s.Shard(number, store.Term{}); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = count(s.partitions[number])
	}
	return out, nil
}

// countJobs counts the partition's jobs.
func (p *partition) countJobs() (n int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	p.records.byRef.Scan(func(r *store.Record) bool {
		if r.Seq == 0 {
			n++
		}
		return true
	})
	return n
}

// count counts what the partition holds.
func (p *partition) count() store.Counts {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := store.NewCounts()
	p.records.byPhase.Scan(func(r *store.Record) bool {
		if r.Seq == 0 {
			out.Phases[r.State.Phase]++
		}
		return true
	})
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
	return out
}

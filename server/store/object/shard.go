package object

import (
	"context"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// shard is a partition as the owner of one term sees it.
type shard struct {
	contents.Reader

	s    *Store
	r    *replica
	term store.Term
}

var _ store.Shard = (*shard)(nil)

// Apply makes the batch durable: whole, if the term is in force.
func (h *shard) Apply(ctx context.Context, b *store.Batch) error {
	return h.s.ApplyGroup(ctx, []store.Write{{Shard: h, Batch: b}})
}

// current returns what the partition holds.
func (h *shard) current(ctx context.Context) (*contents.Partition, error) {
	done, err := h.s.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return h.r.current(ctx, h.s.view())
}

// ApplyGroup implements [store.Grouper].
func (s *Store) ApplyGroup(ctx context.Context, writes []store.Write) error {
	done, err := s.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.apply(ctx, writes)
}

// atOnce is how many partitions are read at the same time.
const atOnce = 8

// each asks some partitions.
func each[T any](ctx context.Context, s *Store, partitions []int,
	ask func(*contents.Partition) T) ([]T, error) {
	done, err := s.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	out, w := make([]T, len(partitions)), s.view()
	var calls errgroup.Group
	calls.SetLimit(atOnce)
	for i, p := range partitions {
		calls.Go(func() error {
			is, err := s.replicas[p].current(ctx, w)
			if err == nil {
				out[i] = ask(is)
			}
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// Gather implements [store.Gatherer].
func (s *Store) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	return each(ctx, s, partitions, func(p *contents.Partition) []store.MetaRecord {
		return p.MetaRecords(store.MetaQuery{Kind: kind, Limit: math.MaxInt})
	})
}

// Count implements [store.Counter].
func (s *Store) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	return each(ctx, s, partitions, (*contents.Partition).Count)
}

// CountJobs implements [store.Counter].
func (s *Store) CountJobs(ctx context.Context, partitions []int) ([]int, error) {
	return each(ctx, s, partitions, (*contents.Partition).CountJobs)
}

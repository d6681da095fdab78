package cassandra

import (
	"context"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// atOnce is how many partitions are asked, or claimed, at the same time.
const atOnce = 16

// forEach calls f for 0 … n-1, some of them at the same time, and returns the first error.
func forEach(n, atOnce int, f func(i int) error) error {
	var calls errgroup.Group
	calls.SetLimit(atOnce)
	for i := range n {
		calls.Go(func() error { return f(i) })
	}
	return calls.Wait()
}

// settings returns the settings of a partition that is not in memory, alone.
func (r *replica) settings(ctx context.Context) (*contents.Partition, error) {
	var all map[string][]byte
	t, err := r.findTail(ctx, &all)
	p := contents.New(r.number)
	if err != nil || !t.exists {
		return p, err
	}
	var b store.Batch
	for key, value := range all {
		if key == "" {
			return nil, r.damaged(t.segment, t.last, errStrange)
		}
		b.MetaRecords = append(b.MetaRecords,
			store.MetaRecord{Kind: key[0], Key: key[1:], Value: append([]byte{}, value...)})
	}
	p.Change(&b, nil)
	return p, nil
}

// Gather implements [store.Gatherer].
func (s *Store) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	done, err := s.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([][]store.MetaRecord, len(partitions))
	err = forEach(len(partitions), atOnce, func(i int) (err error) {
		out[i], err = s.replicas[partitions[i]].metaRecords(ctx, store.MetaQuery{Kind: kind, Limit: math.MaxInt})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ReadAll implements [store.Reader].
func (s *Store) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	for _, a := range asked {
		if h, ok := a.Shard.(*shard); !ok || h.s != s {
			return nil, store.ErrOtherStore
		}
	}
	out := make([][]store.Record, len(asked))
	err := forEach(len(asked), atOnce, func(i int) (err error) {
		out[i], err = asked[i].Shard.Read(ctx, asked[i].Refs)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

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
	done, err := s.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]T, len(partitions))
	err = forEach(len(partitions), atOnce, func(i int) error {
		p, err := s.replicas[partitions[i]].current(ctx)
		if err == nil {
			out[i] = count(p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

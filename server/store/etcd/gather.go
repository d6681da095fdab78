package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// Gather implements [store.Gatherer].
func (s *Store) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	done, err := s.calls.Begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([][]store.MetaRecord, 0, len(partitions))
	for len(partitions) > 0 {
		n := min(len(partitions), usualOps-1)
		found, err := s.metaOf(ctx, store.MetaQuery{Kind: kind, Limit: math.MaxInt}, partitions[:n])
		if err != nil {
			return nil, err
		}
		out, partitions = append(out, found...), partitions[n:]
	}
	return out, nil
}

// metaOf answers a query for some partitions, fewer than a transaction has operations, at one revision. Only
// partitions with a batch that is committed and not in place yet are loaded.
func (s *Store) metaOf(ctx context.Context, q store.MetaQuery,
	partitions []int) ([][]store.MetaRecord, error) {
	ranges := []*pb.RangeRequest{under(s.keys.commits())}
	for _, p := range partitions {
		ranges = append(ranges, s.metaRange(p, q))
	}
	found, _, err := s.wire.read(ctx, ranges...)
	if err != nil {
		return nil, failure(err)
	}
	unsettled := map[int]bool{}
	for _, kv := range found[0].Kvs {
		p, err := last(kv.Key)
		if err != nil {
			return nil, err
		}
		unsettled[p] = true
	}
	out := make([][]store.MetaRecord, len(partitions))
	for i, p := range partitions {
		if unsettled[p] {
			holds, err := s.replicas[p].current(ctx)
			if err != nil {
				return nil, err
			}
			out[i] = holds.MetaRecords(q)
			continue
		}
		for _, kv := range found[i+1].Kvs {
			m, err := parseMeta(kv.Key[len(s.replicas[p].prefix)+len(metaFolder):], kv.Value)
			if err != nil {
				return nil, damaged(kv.Key, err)
			}
			out[i] = append(out[i], m)
		}
	}
	return out, nil
}

// metaRange is the range of a query.
func (s *Store) metaRange(p int, q store.MetaQuery) *pb.RangeRequest {
	folder := s.keys.meta(p, q.Kind)
	r := under(append(slices.Clip(folder), q.Prefix...))
	if q.After != "" && q.After >= q.Prefix {
		r.Key = append(append(slices.Clip(folder), q.After...), 0)
	}
	if string(r.Key) >= string(r.RangeEnd) { // nothing comes after
		r.RangeEnd = append([]byte(string(r.Key)), 0)
		r.Key = r.RangeEnd
		r.CountOnly = true
	}
	if q.Limit < math.MaxInt32 {
		r.Limit = int64(q.Limit)
	}
	return r
}

// ReadAll implements [store.Reader]: reads at the same time share the request that asks whether what is in
// memory is current.
func (s *Store) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	for _, a := range asked {
		if h, ok := a.Shard.(*shard); !ok || h.s != s {
			return nil, store.ErrOtherStore
		}
	}
	out, failed := make([][]store.Record, len(asked)), make([]error, len(asked))
	var reads sync.WaitGroup
	for i, a := range asked {
		reads.Go(func() { out[i], failed[i] = a.Shard.Read(ctx, a.Refs) })
	}
	reads.Wait()
	if err := errors.Join(failed...); err != nil {
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
	for i, p := range partitions {
		holds, err := s.replicas[p].current(ctx)
		if err != nil {
			return nil, fmt.Errorf("count: %w", err)
		}
		out[i] = count(holds)
	}
	return out, nil
}

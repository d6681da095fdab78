package pebble

import (
	"context"

	"github.com/carillonhq/carillon/store"
)

var _ store.Counter = (*Store)(nil)

// Count implements [store.Counter] with a scan of the two indexes of each partition.
func (s *Store) Count(ctx context.Context, partitions []int) (store.Counts, error) {
	out := store.NewCounts()
	for _, number := range partitions {
		of, err := s.Shard(number, store.Term{})
		if err != nil {
			return store.Counts{}, err
		}
		var part store.Counts
		if err := of.(*shard).read(ctx, func(v *view) error { // again from the start if the engine is replaced meanwhile
			part = store.NewCounts()
			return v.count(&part)
		}); err != nil {
			return store.Counts{}, err
		}
		for queue, c := range part.Staged {
			out.AddStaged(queue, c.N, c.Oldest)
		}
		for namespace, n := range part.Dead {
			out.Dead[namespace] += n
		}
	}
	return out, nil
}

// count adds what the partition holds. What is lost does not count.
func (v *view) count(out *store.Counts) error {
	lower, upper := bounds(appendHead(nil, v.partition, kindStaged))
	if err := eachLeft(v.source, lower, upper, func(key, _ []byte) (bool, error) {
		queue, rest, err := cutText(key[headLen:])
		if err != nil || len(rest) == 0 {
			return false, errKey
		}
		due, _, err := cutTime(rest[1:]) // behind the class
		if err == nil {
			out.AddStaged(queue, 1, due)
		}
		return true, err
	}); err != nil {
		return err
	}
	lower, upper = bounds(appendHead(nil, v.partition, kindDead))
	return eachLeft(v.source, lower, upper, func(key, _ []byte) (bool, error) {
		namespace, _, err := cutText(key[headLen:])
		if err == nil {
			out.Dead[namespace]++
		}
		return true, err
	})
}

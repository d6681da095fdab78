package pebble

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

var _ store.Counter = (*Store)(nil)

// Count implements [store.Counter] with a scan of the two indexes of each partition.
func (s *Store) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	out := make([]store.Counts, len(partitions))
	for i, number := range partitions {
		of, err := s.Shard(number, store.Term{})
		if err != nil {
			return nil, err
		}
		// again from the start if the engine is replaced meanwhile
		if err := of.(*shard).readView(ctx, func(v *view) error {
			out[i] = store.NewCounts()
			return v.count(&out[i])
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// count adds what the partition holds. Lost records do not count.
func (v *view) count(out *store.Counts) error {
	lower, upper := bounds(appendHead(nil, v.partition, kindStaged))
	if err := eachLeft(v.source, lower, upper, func(key, _ []byte) (bool, error) {
		c := ordered.Cutter{B: key[headLen:]}
		queue, _, due := c.Text(), c.Byte(), c.Time()
		if c.Bad {
			return false, errKey
		}
		out.AddStaged(queue, 1, due)
		return true, nil
	}); err != nil {
		return err
	}
	lower, upper = bounds(append(appendHead(nil, v.partition, kindFinished), byte(carillon.RunDead)))
	dead := len(lower)
	return eachLeft(v.source, lower, upper, func(key, _ []byte) (bool, error) {
		c := ordered.Cutter{B: key[dead:]}
		namespace := c.Text()
		if c.Bad {
			return false, errKey
		}
		out.Dead[namespace]++
		return true, nil
	})
}

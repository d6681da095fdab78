package pebble

import (
	"context"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

var _ store.Counter = (*Store)(nil)

// Count implements [store.Counter] with a scan of three indexes of each partition.
func (s *Store) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	return countEach(ctx, s, partitions, func(v *view) (store.Counts, error) {
		out := store.NewCounts()
		err := v.count(&out)
		return out, err
	})
}

// CountJobs implements [store.Counter] with a scan of the heads of jobs.
func (s *Store) CountJobs(ctx context.Context, partitions []int) ([]int, error) {
	return countEach(ctx, s, partitions, func(v *view) (n int, err error) {
		lower, upper := bounds(appendHead(nil, v.partition, kindHead))
		err = eachLeft(v.source, lower, upper, func(_, _ []byte) (bool, error) {
			n++
			return true, nil
		})
		return n, err
	})
}

// countEach counts in each of the partitions, again from the start if the engine is replaced meanwhile.
func countEach[T any](ctx context.Context, s *Store, partitions []int, count func(v *view) (T, error)) ([]T,
	error) {
	out := make([]T, len(partitions))
	for i, number := range partitions {
		of, err := s.Shard(number, store.Term{})
		if err != nil {
			return nil, err
		}
		err = of.(*shard).readView(ctx, func(v *view) (err error) {
			out[i], err = count(v)
			return err
		})
		if err != nil {
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
	for phase := carillon.PhaseScheduled + 1; phase <= carillon.PhaseWaiting; phase++ {
		lower, upper := bounds(appendPhasePrefix(nil, v.partition, phase, false))
		if err := eachLeft(v.source, lower, upper, func(_, _ []byte) (bool, error) {
			out.Phases[phase]++
			return true, nil
		}); err != nil {
			return err
		}
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

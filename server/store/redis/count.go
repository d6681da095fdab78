package redis

import (
	"bytes"
	"context"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

var _ store.Counter = (*Store)(nil)

// Count implements [store.Counter]. An index is a sorted set, which counts a stretch of it without reading
// it: it takes a few commands for each partition and for each queue and namespace in it.
func (s *Store) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	out := make([]store.Counts, len(partitions))
	for i, number := range partitions {
		of, err := s.Shard(number, store.Term{})
		if err != nil {
			return nil, err
		}
		part := of.(*shard)
		out[i] = store.NewCounts()
		if err := part.countStaged(ctx, &out[i]); err != nil {
			return nil, err
		}
		err = part.eachText(ctx, keyFinished, []byte{byte(carillon.RunDead)}, func(namespace string, n int) error {
			out[i].Dead[namespace] += n
			return nil
		})
		if err != nil {
			return nil, err
		}
		if err := part.countPhases(ctx, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CountJobs implements [store.Counter]: the index of jobs knows how many it has.
func (s *Store) CountJobs(ctx context.Context, partitions []int) ([]int, error) {
	out := make([]int, len(partitions))
	for i, number := range partitions {
		of, err := s.Shard(number, store.Term{})
		if err != nil {
			return nil, err
		}
		if out[i], err = of.(*shard).countRange(ctx, keyJobs, "-", "+"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// countPhases counts jobs by phase.
func (s *shard) countPhases(ctx context.Context, out *store.Counts) error {
	for phase := carillon.PhaseScheduled + 1; phase <= carillon.PhaseWaiting; phase++ {
		head := []byte{byte(phase), 0}
		n, err := s.countRange(ctx, keyPhases, "["+string(head), after(head))
		if err != nil {
			return err
		}
		if n > 0 {
			out.Phases[phase] = n
		}
	}
	return nil
}

// countStaged counts what is staged. The members of a queue are in order of priority first, so each priority
// has an oldest one.
func (s *shard) countStaged(ctx context.Context, out *store.Counts) error {
	return s.eachText(ctx, keyStaged, nil, func(queue string, n int) error {
		for priority := range byte(priorities) {
			prefix := append(ordered.AppendText(nil, queue), priority)
			first, ok, err := s.first(ctx, keyStaged, "["+string(prefix), after(prefix))
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			c := ordered.Cutter{B: []byte(first[len(prefix):])}
			due := c.Time()
			if c.Bad {
				return fmt.Errorf("%w: a staged entry of %d bytes", store.ErrDamaged, len(first))
			}
			out.AddStaged(queue, n, due)
			n = 0 // counted
		}
		return nil
	})
}

// eachText calls f with each text that members of an index have behind a head, and how many have it.
func (s *shard) eachText(ctx context.Context, index int, head []byte,
	f func(text string, n int) error) error {
	from, to := "["+string(head), "+"
	if len(head) == 0 {
		from = "-"
	} else {
		to = after(head)
	}
	for {
		first, ok, err := s.first(ctx, index, from, to)
		if err != nil || !ok {
			return err
		}
		c := ordered.Cutter{B: []byte(first)[len(head):]}
		text := c.Text()
		if c.Bad {
			return fmt.Errorf("%w: an index entry of %d bytes", store.ErrDamaged, len(first))
		}
		prefix := ordered.AppendText(bytes.Clone(head), text)
		end := after(prefix)
		n, err := s.countRange(ctx, index, "["+string(prefix), end)
		if err != nil {
			return err
		}
		if n > 0 { // it may have gone meanwhile
			if err := f(text, n); err != nil {
				return err
			}
		}
		from = "[" + end[1:]
	}
}

// first is the first member of a stretch of an index; ok is false if there is none.
func (s *shard) first(ctx context.Context, index int, from, to string) (member string, ok bool, err error) {
	found, err := ask(ctx, s.s, func(ctx context.Context) ([]string, error) {
		c := s.s.client.B().Zrange().Key(s.keys[index]).Min(from).Max(to).Bylex().Limit(0, 1).Build()
		return unlessNil(s.s.client.Do(ctx, c).AsStrSlice())
	})
	if err != nil || len(found) == 0 {
		return "", false, err
	}
	return found[0], true, nil
}

// countRange counts the members of a stretch of an index.
func (s *shard) countRange(ctx context.Context, index int, from, to string) (int, error) {
	n, err := ask(ctx, s.s, func(ctx context.Context) (int64, error) {
		c := s.s.client.B().Zlexcount().Key(s.keys[index]).Min(from).Max(to).Build()
		return s.s.client.Do(ctx, c).AsInt64()
	})
	return int(n), err
}

// priorities is how many priorities there are.
const priorities = 4

package cassandra

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// atOnce is how many partitions are asked, or claimed, at the same time.
const atOnce = 16

// forEach calls f for 0 … n-1, some of them at the same time, and returns what their errors say.
func forEach(n, atOnce int, f func(i int) error) error {
	failed := make([]error, n)
	var calls sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		calls.Go(func() {
			failed[i] = f(i)
			<-slots
		})
	}
	calls.Wait()
	return errors.Join(failed...)
}

// settings returns the settings of a partition that is not in memory, alone.
func (r *replica) settings(ctx context.Context) (*contents.Partition, error) {
	for range mostTries {
		t, err := r.findTail(ctx)
		p := contents.New(r.number)
		if err != nil || !t.exists {
			return p, err
		}
		var all map[string][]byte
		s := statement{`SELECT DISTINCT partition, segment, epoch, nonce, start, last, next, settings FROM $changes ` +
			`WHERE partition = ? AND segment = ?`, []any{r.number, t.segment}}
		err = r.s.wire.each(ctx, r.s.wire.levels.regular, s, nil, func(scan func(...any) error) error {
			return t.scan(r.number, scan, &all)
		})
		if err != nil {
			return nil, err
		}
		if t.next != 0 {
			continue // another goes on since
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
	return nil, errContended
}

// Gather implements [store.Gatherer].
func (s *Store) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	done, err := s.begin(ctx, partitions...)
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
	done, err := s.begin(ctx, partitions...)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]T, len(partitions))
	err = forEach(len(partitions), atOnce, func(i int) error {
		v, err := s.replicas[partitions[i]].current(ctx)
		if err == nil {
			out[i] = count(v.holds)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

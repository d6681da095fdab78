package memory

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
)

// shard is a partition as the owner of one term sees it.
type shard struct {
	p    *partition
	term store.Term
}

var _ store.Shard = (*shard)(nil)

// Apply makes the batch visible: whole, or not at all.
func (s *shard) Apply(ctx context.Context, b *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.p.apply(s.term, b)
}

// read calls f under the partition's lock.
func read[T any](ctx context.Context, s *shard, f func() T) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	s.p.mu.RLock()
	defer s.p.mu.RUnlock()
	return f(), nil
}

// Read returns the records of the refs, in their order.
func (s *shard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	return read(ctx, s, func() []store.Record { return s.p.holds.Read(refs) })
}

var _ store.Reader = (*Store)(nil)

// ReadAll implements [store.Reader].
func (s *Store) ReadAll(ctx context.Context, asked []store.Asked) ([][]store.Record, error) {
	out := make([][]store.Record, len(asked))
	for i, a := range asked {
		var err error
		if out[i], err = a.Shard.Read(ctx, a.Refs); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// List returns jobs in name order.
func (s *shard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	return read(ctx, s, func() []store.Record { return s.p.holds.List(q) })
}

// Due returns records of one priority in (due, ref) order.
func (s *shard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	return read(ctx, s, func() []store.Record { return s.p.holds.Due(q) })
}

// Staged returns the records parked under a queue in (priority, run due, ref) order.
func (s *shard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	return read(ctx, s, func() []store.Record { return s.p.holds.Staged(q) })
}

// Live finds the record whose unfinished run has the id.
func (s *shard) Live(ctx context.Context, id store.RunID) (ref store.Ref, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return store.Ref{}, false, err
	}
	s.p.mu.RLock()
	defer s.p.mu.RUnlock()
	ref, ok = s.p.holds.Live(id)
	return ref, ok, nil
}

// Runs returns finished runs, newest first.
func (s *shard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.p.mu.RLock()
	defer s.p.mu.RUnlock()
	return s.p.holds.Runs(q)
}

// MetaRecords returns the metadata records of a kind in key order.
func (s *shard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	return read(ctx, s, func() []store.MetaRecord { return s.p.holds.MetaRecords(q) })
}

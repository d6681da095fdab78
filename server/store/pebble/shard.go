package pebble

import (
	"context"
	"math"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// shard is a partition for the owner of one term.
type shard struct {
	s      *Store
	number int
	term   store.Term
	part   *partition
}

var _ store.Shard = (*shard)(nil)

// Apply makes the batch durable, if the term is in force when its turn comes.
func (s *shard) Apply(ctx context.Context, b *store.Batch) error {
	return s.s.ApplyGroup(ctx, []store.Write{{Shard: s, Batch: b}})
}

// view is what a read sees: one state of the partition, never half of a batch.
type view struct {
	source
	partition int
	known     *headCache
	turn      uint64 // of known; asked for before the snapshot was taken
}

// readView calls f with a view, and returns when what f saw is durable. If the engine fails meanwhile, it
// calls f again on the one that replaces it.
func (s *shard) readView(ctx context.Context, f func(v *view) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var e *engine
		err := s.s.engines.use(func(now *engine) error {
			e = now
			v := &view{partition: s.number, known: s.part.heads, turn: s.part.heads.turns.Load()}
			snapshot := e.db.NewSnapshot()
			defer snapshot.Close()
			v.source = source{snapshot, e.lost}
			return f(v)
		})
		if e == nil || e.readOnly || !e.guard.void() && (err != nil || s.part.settled() == nil) {
			return err
		}
		<-e.gone // what was read may not be durable, or be lost; the failure ends this engine
	}
}

// read is readView with a result.
func read[T any](ctx context.Context, s *shard, f func(v *view) (T, error)) (out T, err error) {
	err = s.readView(ctx, func(v *view) error {
		out, err = f(v)
		return err
	})
	return out, err
}

// Read returns the records of the refs, in their order.
func (s *shard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	out := make([]store.Record, len(refs))
	err := s.readView(ctx, func(v *view) (err error) {
		for i, ref := range refs {
			if out[i], err = v.record(ref); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Live finds the record whose unfinished run has the id.
func (s *shard) Live(ctx context.Context, id store.RunID) (ref store.Ref, ok bool, err error) {
	if int(id.Partition) != s.number {
		return store.Ref{}, false, ctx.Err()
	}
	err = s.readView(ctx, func(v *view) error {
		var value []byte
		if value, ok, err = get(v.source, appendLiveKey(nil, v.partition, &id)); err != nil || !ok {
			return err
		}
		ref, err = ordered.ParseRef(value)
		return err
	})
	return ref, ok, err
}

// List returns jobs in name order.
func (s *shard) List(ctx context.Context, q store.ListQuery) ([]store.Record, error) {
	return read(ctx, s, func(v *view) ([]store.Record, error) { return v.list(q) })
}

// Due returns records of one priority in (due, ref) order.
func (s *shard) Due(ctx context.Context, q store.DueQuery) ([]store.Record, error) {
	m := s.part.marks
	found, scan := int64(math.MinInt64), m.begin(q.Priority)
	defer func() { m.end(scan, found) }()
	return read(ctx, s, func(v *view) (out []store.Record, err error) {
		out, found, err = v.due(q, m.start(scan))
		return out, err
	})
}

// Staged returns the records staged under a queue in (priority, run due, ref) order.
func (s *shard) Staged(ctx context.Context, q store.StagedQuery) ([]store.Record, error) {
	return read(ctx, s, func(v *view) ([]store.Record, error) { return v.staged(q) })
}

// Runs returns finished runs, newest first.
func (s *shard) Runs(ctx context.Context, q store.RunQuery) ([]store.RunRecord, error) {
	return read(ctx, s, func(v *view) ([]store.RunRecord, error) { return v.runs(q) })
}

// MetaRecords returns the metadata records of a kind in key order.
func (s *shard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	return read(ctx, s, func(v *view) ([]store.MetaRecord, error) { return v.metaRecords(q) })
}

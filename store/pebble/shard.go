package pebble

import (
	"context"
	"math"
	"sync"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/store"
)

// shard is a partition as the owner of one term sees it.
type shard struct {
	s      *Store
	number int
	term   store.Term
	part   *partition
}

var _ store.Shard = (*shard)(nil)

// builders keep their buffers for the next batch.
var builders = sync.Pool{New: func() any { return new(builder) }}

// Apply makes the batch durable, if the term is in force when its turn comes.
func (s *shard) Apply(ctx context.Context, b *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.s.owners.holds(s.number, s.term) {
		return store.ErrFenced
	}
	w := builders.Get().(*builder)
	defer builders.Put(w)
	w.reset(s)
	req := &request{shard: s, done: make(chan error, 1)}
	err := s.s.engines.use(func(e *engine) error { return w.request(e, b, req) })
	if err == nil {
		err = s.s.submit(ctx, req)
	}
	if req.ops != nil {
		_ = req.ops.Close() // it was copied or is not wanted
	}
	if err != nil {
		s.part.runs.known.Store(false)
		return err
	}
	s.part.runs.add(w.retained)
	return nil
}

// reset readies the builder for a batch of s.
func (w *builder) reset(s *shard) {
	w.part, w.partition, w.inline = s.part, s.number, s.s.opt.InlineSpec
	w.dues, w.lives, w.retained = w.dues[:0], w.lives[:0], 0
}

// request builds b on e. An engine that only reads builds nothing: the committer says why, or tries to recover.
func (w *builder) request(e *engine, b *store.Batch, req *request) error {
	req.engine = e
	if e.readOnly {
		return nil
	}
	w.read, req.ops = e.db, e.db.NewBatch()
	if readsOwnWrites(b) {
		req.ops = e.db.NewIndexedBatch()
		w.read = req.ops
	}
	w.out = req.ops
	err := w.build(b)
	if why := e.failure(); err != nil && why != nil {
		return why // what could not be read may be what could not be written
	}
	req.dues = w.dues
	return err
}

// view is what a read sees: one state of the partition, in the middle of no batch.
type view struct {
	*pebbledb.Snapshot
	partition int
}

// read calls f with a view, and returns when what f saw is durable. If that fails, it asks what is left of the store.
func (s *shard) read(ctx context.Context, f func(v *view) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var e *engine
		err := s.s.engines.use(func(now *engine) error {
			e = now
			v := &view{Snapshot: e.db.NewSnapshot(), partition: s.number}
			defer v.Close()
			return f(v)
		})
		if e == nil || e.readOnly || !e.guard.void() && (err != nil || s.part.settled() == nil) {
			return err
		}
		<-e.gone // what was read may not be durable, or be lost; the failure ends this engine
	}
}

// Read returns the records of the refs, in their order.
func (s *shard) Read(ctx context.Context, refs []store.Ref) ([]store.Record, error) {
	out := make([]store.Record, len(refs))
	err := s.read(ctx, func(v *view) (err error) {
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
func (s *shard) Live(ctx context.Context, id carillon.RunIdentity) (ref store.Ref, ok bool, err error) {
	if int(id.Partition) != s.number {
		return store.Ref{}, false, ctx.Err()
	}
	err = s.read(ctx, func(v *view) error {
		var value []byte
		if value, ok, err = get(v, appendLiveKey(nil, v.partition, &id)); err != nil || !ok {
			return err
		}
		ref, err = parseRef(value)
		return err
	})
	return ref, ok, err
}

// List returns jobs in name order.
func (s *shard) List(ctx context.Context, q store.ListQuery) (out []store.Record, err error) {
	err = s.read(ctx, func(v *view) error {
		out, err = v.list(q)
		return err
	})
	return out, err
}

// Due returns records of one class in (due, ref) order.
func (s *shard) Due(ctx context.Context, q store.DueQuery) (out []store.Record, err error) {
	m := s.part.marks
	found, scan := int64(math.MinInt64), m.begin(q.Class)
	defer func() { m.end(scan, found) }()
	err = s.read(ctx, func(v *view) error {
		out, found, err = v.due(q, m.start(scan))
		return err
	})
	return out, err
}

// Staged returns the records parked under a queue in (class, run due, ref) order.
func (s *shard) Staged(ctx context.Context, q store.StagedQuery) (out []store.Record, err error) {
	err = s.read(ctx, func(v *view) error {
		out, err = v.staged(q)
		return err
	})
	return out, err
}

// Runs returns finished runs, newest first.
func (s *shard) Runs(ctx context.Context, q store.RunQuery) (out []store.RunRecord, err error) {
	err = s.read(ctx, func(v *view) error {
		out, err = v.runs(q)
		return err
	})
	return out, err
}

// Small returns the small records of a kind in key order.
func (s *shard) Small(ctx context.Context, q store.SmallQuery) (out []store.Small, err error) {
	err = s.read(ctx, func(v *view) error {
		out, err = v.small(q)
		return err
	})
	return out, err
}

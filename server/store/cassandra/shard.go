package cassandra

import (
	"context"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/contents"
)

// shard is a partition as the owner of one term sees it.
type shard struct {
	contents.Reader

	s    *Store
	r    *replica
	term store.Term
}

var _ store.Shard = (*shard)(nil)

// Apply makes the batch durable: whole, if the term is in force.
func (h *shard) Apply(ctx context.Context, b *store.Batch) error {
	done, err := h.s.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if h.term.IsZero() {
		return store.ErrFenced
	}
	if err := h.r.turn.Take(ctx, nil); err != nil {
		return err
	}
	defer h.r.turn.Give()
	err = h.change(ctx, b)
	h.s.health.Note(err)
	return err
}

// change applies a batch. The caller holds the replica's lock.
func (h *shard) change(ctx context.Context, b *store.Batch) error {
	from, err := h.prepare(ctx)
	if err != nil {
		return err
	}
	is, touched := from.holds.Copy(), contents.NewTouched()
	is.Change(b, touched)
	o, err := build(b, touched, from.holds, is)
	if err != nil {
		return err
	}
	if err := h.r.add(context.WithoutCancel(ctx), from, is, o); err != nil {
		return err
	}
	h.s.cleaner.look(h.r)
	return nil
}

// prepare returns the version that the term's next batch is made from.
func (h *shard) prepare(ctx context.Context) (*version, error) {
	v := h.r.is.Load()
	if v == nil || len(v.segments) == 0 || v.term != h.term {
		var err error
		if v, err = h.r.advance(ctx); err != nil {
			return nil, err
		}
		if len(v.segments) == 0 || v.term != h.term {
			return nil, store.ErrFenced
		}
	}
	return v, nil
}

// current returns what the partition holds.
func (h *shard) current(ctx context.Context) (*contents.Partition, error) {
	done, err := h.s.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return h.r.current(ctx)
}

// MetaRecords returns the metadata records of a kind in key order. Settings of a partition that is not in
// memory are read alone.
func (h *shard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	done, err := h.s.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return h.r.metaRecords(ctx, q)
}

// metaRecords is MetaRecords within a call that has begun.
func (r *replica) metaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if isSettings(q.Kind) && r.is.Load() == nil {
		p, err := r.settings(ctx)
		if err != nil {
			return nil, failure(err)
		}
		return p.MetaRecords(q), nil
	}
	p, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	return p.MetaRecords(q), nil
}

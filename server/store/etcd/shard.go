package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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
	o, err := h.r.build(b, touched, from.holds, is)
	if err != nil {
		return err
	}
	h.s.maintainer.wrote(o.size, is.Len()-from.holds.Len())
	next := &version{holds: is}
	// Whatever the context says now, the write is not broken off.
	next.headAt, next.pending, err = h.write(context.WithoutCancel(ctx), from, o)
	switch {
	case err == nil:
		h.r.is.CompareAndSwap(from, next)
	case store.OutcomeOf(err) != store.NotApplied || errors.Is(err, errOvertaken):
		h.r.forget()
	}
	return err
}

// prepare returns the version that the term's next batch is made from.
func (h *shard) prepare(ctx context.Context) (*version, error) {
	head := headValue(h.term, false)
	if h.term.IsZero() {
		return nil, store.ErrFenced
	}
	v := h.r.is.Load()
	if v == nil || !bytes.Equal(termOf(v.head), head) {
		var err error
		if v, err = h.r.load(ctx); err != nil {
			return nil, failure(err)
		}
		if !bytes.Equal(termOf(v.head), head) {
			return nil, store.ErrFenced
		}
	}
	v, err := h.r.settle(context.WithoutCancel(ctx), v)
	if errors.Is(err, errOvertaken) {
		h.r.forget()
	}
	if store.OutcomeOf(err) == store.Unknown { // it is about the batch before, and is tried again
		return nil, errors.New("store: etcd: the batch before is not in place yet: " + err.Error())
	}
	return v, err
}

// write writes a batch: in one transaction if it fits.
func (h *shard) write(ctx context.Context, from *version, o *built) (headAt, *commitValue, error) {
	if len(o.ops) < int(h.s.wire.mostOps.Load()) && o.size <= mostBytes {
		at, err := h.s.commits.write(h.r, from, o.ops, o.size)
		if !errors.Is(err, errSplit) {
			return at, nil, err
		}
	}
	return h.r.stage(ctx, from, o)
}

// current returns what the partition holds.
func (h *shard) current(ctx context.Context) (*contents.Partition, error) {
	done, err := h.s.calls.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	p, err := h.r.current(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return p, nil
}

// MetaRecords returns the metadata records of a kind in key order. Of a partition that another process
// owns they are read alone.
func (h *shard) MetaRecords(ctx context.Context, q store.MetaQuery) ([]store.MetaRecord, error) {
	if !h.r.owned.Load() {
		done, err := h.s.calls.Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		found, err := h.s.metaOf(ctx, q, []int{h.r.number})
		if err != nil {
			return nil, err
		}
		return found[0], nil
	}
	return h.Reader.MetaRecords(ctx, q)
}

package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillonhq/carillon/server/store"
)

// mark puts the mark into all partitions of a frozen store, which no other process may have taken; empty:
// none. The first partition is the last one that loses its mark, and the first that gets one: what it has is
// the mark of the store.
func (f *frozen) mark(ctx context.Context, value string) error {
	if value == "" {
		return f.unmark(ctx, func(int) bool { return true })
	}
	for p := range f.shards {
		if err := f.putMark(ctx, p, value); err != nil {
			return err
		}
	}
	return nil
}

// unmark takes the marks of some partitions away.
func (f *frozen) unmark(ctx context.Context, of func(p int) bool) (all error) {
	for p := range slices.Backward(f.shards) {
		if !of(p) {
			continue
		}
		if p == 0 && all != nil {
			break // so that the store has a mark as long as one of its partitions has
		}
		all = errors.Join(all, f.putMark(ctx, p, ""))
	}
	return all
}

func (f *frozen) putMark(ctx context.Context, p int, value string) error {
	m := store.MetaRecord{Kind: store.KindMove, Key: store.MoveKey}
	if value != "" {
		m.Value = []byte(value)
	}
	if err := again(ctx, f.shards[p], &store.Batch{MetaRecords: []store.MetaRecord{m}}); err != nil {
		return fmt.Errorf("mark partition %d: %w", p, cause(ctx, err))
	}
	return nil
}

const (
	// mostApplies is how often it is tried to write a batch, and applyEvery the time between.
	mostApplies = 5
	applyEvery  = time.Second
)

// again writes a batch to a store that is frozen, where writing it twice is as good as once: so it is written
// again when it has failed, or its outcome is not known.
func again(ctx context.Context, sh store.Shard, b *store.Batch) (err error) {
	for n := range mostApplies {
		if n > 0 {
			select {
			case <-time.After(applyEvery):
			case <-ctx.Done():
				return errors.Join(err, context.Cause(ctx))
			}
		}
		if err = sh.Apply(ctx, b); err == nil || store.OutcomeOf(err) == store.Fenced {
			return err
		}
	}
	return err
}

// noteKey is that of a note about a store from which something is to move (store.KindMove), in its first
// partition: two epochs, the last one of a node, and the last one of the attempt to move it. An attempt is a
// term, too, of which there are no records; and each is one of an epoch that may be greater by far.
const noteKey = "epochs"

// note finds out which epoch the records of a store may have come to, whatever attempts to move it there were
// since a node has owned it, and notes it for the next one. Otherwise the terms of what an earlier attempt
// has begun to fill would seem to be too low.
func (f *frozen) note(ctx context.Context) error {
	found, err := f.shards[0].MetaRecords(ctx, store.MetaQuery{Kind: store.KindMove, Prefix: noteKey, Limit: 1})
	if err != nil {
		return fmt.Errorf("the note of an earlier attempt: %w", err)
	}
	if len(found) == 1 && len(found[0].Value) == 16 && binary.BigEndian.Uint64(found[0].Value[8:]) == f.epoch {
		f.epoch = binary.BigEndian.Uint64(found[0].Value)
	}
	last := uint64(0)
	for _, h := range f.held {
		last = max(last, h.Term.Epoch)
	}
	value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, f.epoch), last)
	m := store.MetaRecord{Kind: store.KindMove, Key: noteKey, Value: value}
	if err := f.shards[0].Apply(ctx, &store.Batch{MetaRecords: []store.MetaRecord{m}}); err != nil {
		return fmt.Errorf("note the epochs of the store: %w", cause(ctx, err))
	}
	return nil
}

// markOf reads the mark of a store.
func markOf(ctx context.Context, s store.Store) ([]store.MetaRecord, error) {
	first, err := s.Shard(0, store.Term{})
	if err != nil {
		return nil, err
	}
	found, err := first.MetaRecords(ctx, store.MoveMarks)
	if err != nil {
		return nil, fmt.Errorf("the mark of the store: %w", err)
	}
	return found, nil
}

// Usable is an error if a store must not be served: [store.ErrArriving] or [store.ErrMoved]. A mark that is
// damaged is none: whoever takes a partition over reads its own, so the first one stands still, and others
// are served if they have no mark.
func Usable(ctx context.Context, s store.Store) error {
	found, err := markOf(ctx, s)
	if errors.Is(err, store.ErrDamaged) {
		return nil
	}
	if err != nil {
		return err
	}
	return store.CheckMove(found)
}

// fillable is an error for a store that is not to be filled: it must be marked as one that is being filled,
// or hold nothing.
func (f *frozen) fillable(ctx context.Context, again bool) error {
	switch err := Usable(ctx, f.store); {
	case errors.Is(err, store.ErrArriving):
		return nil
	case err != nil:
		return err
	case again:
		return fmt.Errorf("that store has not moved here: %w", store.ErrMoved)
	}
	err := f.Each(ctx, func(context.Context, int, *store.Batch) error { return errHolds })
	if errors.Is(err, errHolds) {
		return errors.New("it was in use already: give a place where there is no store")
	}
	return err
}

// errHolds: there is something.
var errHolds = errors.New("it holds something")

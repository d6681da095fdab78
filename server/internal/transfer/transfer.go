package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/carillonhq/carillon/server/store"
)

// Head is what a store was created with, and how far its terms have come.
type Head struct {
	Format     int    `json:"format"`
	Partitions int    `json:"partitions"`
	MACKey     []byte `json:"mac_key"`
	Epoch      uint64 `json:"epoch"` // no term had a greater one
}

// Counts is how much has been moved.
type Counts struct {
	Records int64 `json:"records"` // jobs and pending runs
	Runs    int64 `json:"runs"`    // finished ones
	Meta    int64 `json:"meta"`    // metadata records
}

// Progress is called again and again, from one goroutine at a time, with what has been moved so far.
type Progress func(Counts)

// Result tells what has been moved.
type Result struct {
	Counts
	Digest Digest `json:"digest"`
}

// Source is something that can be read whole: a frozen store, or a file.
type Source interface {
	Head() Head
	// Each calls take for batches of everything there is, perhaps from several goroutines, but from one at a
	// time for each partition.
	Each(ctx context.Context, take Taker) error
	// Kinds does so for metadata records of some kinds.
	Kinds(ctx context.Context, kinds string, take Taker) error
}

// Taker takes a batch of what a partition holds.
type Taker func(ctx context.Context, partition int, b *store.Batch) error

// Reshape makes of what there is what the store to fill is to hold, if that is not the same.
type Reshape func(ctx context.Context, from Source) (Reshaped, error)

// Reshaped is what the store to fill is to hold.
type Reshaped interface {
	Head() Head
	Each(ctx context.Context, take Taker) error
	// Back is called as Each calls, with what that store does hold.
	Back(partition int, b *store.Batch) error
	// Whole is called at the end. It is an error if that is not what there was to move.
	Whole() error
}

// asIs is a source of which nothing is changed.
type asIs struct{ Source }

func (asIs) Back(int, *store.Batch) error { return nil }
func (asIs) Whole() error                 { return nil }

// AsIs is the [Reshape] that changes nothing.
func AsIs(_ context.Context, from Source) (Reshaped, error) { return asIs{from}, nil }

// Head implements [Source].
func (f *frozen) Head() Head {
	m := f.store.Meta()
	return Head{Format: m.Format, Partitions: m.Partitions, MACKey: m.MACKey, Epoch: f.epoch}
}

// Open opens the store to which something moves, and creates it with some options if it is not there.
type Open func(ctx context.Context, o store.Options) (store.Store, error)

// Migrate moves what a store holds to another, and marks it as moved.
//
//	from   frozen ──── read ─────────────────── marked as moved ────────── released
//	to     created, frozen, marked, written, read back ────── mark removed, released
//
// Wherever it is killed, at most one of them can be served, and another call ends what it began: one that has
// moved is read again if the other is not whole.
func Migrate(ctx context.Context, from store.Store, open Open, p Progress) (Result, error) {
	return MigrateAs(ctx, from, open, AsIs, p)
}

// MigrateAs is Migrate to a store that holds something else. It must be the same each time.
func MigrateAs(ctx context.Context, from store.Store, open Open, as Reshape,
	p Progress) (result Result, err error) {
	was := Usable(ctx, from)
	if was != nil && !errors.Is(was, store.ErrMoved) {
		return result, was
	}
	if err := used(ctx, from); err != nil {
		return result, fmt.Errorf("the store to move: %w", err)
	}
	f, work, err := freeze(ctx, from)
	if err != nil {
		return result, fmt.Errorf("the store to move: %w", err)
	}
	defer func() { err = errors.Join(err, f.thaw(ctx)) }()
	if err := f.note(work); err != nil {
		return result, err
	}
	shaped, err := as(work, f)
	if err != nil {
		return result, cause(work, err)
	}
	return fill(work, shaped, p, filling{open: open, again: was != nil, leave: func() error {
		err := f.hold(work)
		if err == nil {
			err = f.mark(work, store.MoveMoved)
		}
		if err != nil && was == nil { // those partitions that are held still are to be as they were
			err = errors.Join(err, f.mark(context.WithoutCancel(ctx), ""))
		}
		return err
	}})
}

// filling tells how a store is filled.
type filling struct {
	open  Open
	again bool         // an earlier call must have begun it
	leave func() error // what is done when everything has arrived, before the store may be served
}

// fill moves everything to a store that is not there yet, or that an earlier call has begun to fill, and
// reads it back.
func fill(ctx context.Context, from Reshaped, p Progress, with filling) (result Result, err error) {
	f, work, end, err := target(ctx, from.Head(), 0, with.open, with.again)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, end()) }()
	var moved tally
	if err := from.Each(work, func(ctx context.Context, partition int, b *store.Batch) error {
		if err := f.shards[partition].Apply(ctx, b); err != nil {
			return fmt.Errorf("write to partition %d: %w", partition, err)
		}
		return moved.add(partition, b, p)
	}); err != nil {
		return result, cause(work, err)
	}
	var there tally
	if err := f.Each(work, func(_ context.Context, partition int, b *store.Batch) error {
		return errors.Join(there.add(partition, b, nil), from.Back(partition, b))
	}); err != nil {
		return result, fmt.Errorf("read back: %w", cause(work, err))
	}
	if there.result() != moved.result() {
		return result, fmt.Errorf("what was read back is not what was written: %+v, not %+v", there.result(), moved.result())
	}
	if err := from.Whole(); err != nil {
		return result, fmt.Errorf("what was read back is not what there was: %w", err)
	}
	if err := with.leave(); err != nil {
		return result, err
	}
	return moved.result(), f.finish(work)
}

// target opens the store to fill, freezes and marks it. A new one begins so many epochs ahead. The caller
// calls end, which closes it.
func target(ctx context.Context, h Head, ahead uint64, open Open, again bool) (
	f *frozen, work context.Context, end func() error, err error) {
	to, err := open(ctx, store.Options{Partitions: h.Partitions, MACKey: h.MACKey, Epoch: h.Epoch + ahead})
	if err != nil {
		return nil, nil, nil, err
	}
	m := to.Meta()
	if m.Partitions != h.Partitions && bytes.Equal(m.MACKey, h.MACKey) {
		return nil, nil, nil, errors.Join(fmt.Errorf("the store there has %d partitions, and what is to go there is of %d: give "+
			"the number with which it was begun, or another place", m.Partitions, h.Partitions), to.Close())
	}
	if m.Partitions != h.Partitions || !bytes.Equal(m.MACKey, h.MACKey) {
		return nil, nil, nil, errors.Join(errors.New("there is another store already where it is to go"), to.Close())
	}
	f, work, err = freeze(ctx, to)
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("the store to fill: %w", err), to.Close())
	}
	end = func() error { return errors.Join(f.thaw(ctx), to.Close()) }
	if err := f.take(work, h, again); err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("the store to fill: %w", cause(work, err)), end())
	}
	return f, work, end, nil
}

// take makes sure that a store is to be filled, marks it, and removes what an earlier attempt has left.
func (f *frozen) take(ctx context.Context, h Head, again bool) error {
	for _, held := range f.held {
		if held.Term.Epoch <= h.Epoch {
			return fmt.Errorf("the terms of partition %d have come to epoch %d only, and must be above %d: remove that store, or "+
				"give another place", held.Partition, held.Term.Epoch, h.Epoch)
		}
	}
	if err := f.fillable(ctx, again); err != nil {
		return err
	}
	if err := f.mark(ctx, store.MoveArriving); err != nil {
		return err
	}
	return f.clear(ctx)
}

// cause is why a context has ended, or err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// clear removes everything.
func (f *frozen) clear(ctx context.Context) error {
	for _, sh := range f.shards {
		if err := clearShard(ctx, sh); err != nil {
			return err
		}
	}
	return nil
}

func clearShard(ctx context.Context, sh store.Shard) error {
	for { // records
		page, err := sh.List(ctx, store.ListQuery{Limit: pageItems, MaxSpec: 1, Pending: true})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		var b store.Batch
		for i := range page {
			b.Deletes = append(b.Deletes, page[i].Ref)
		}
		if err := sh.Apply(ctx, &b); err != nil {
			return err
		}
	}
	for { // runs
		page, err := sh.Runs(ctx, store.RunQuery{All: true, Limit: 1})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		b := store.Batch{Expire: &store.Expire{Before: math.MaxInt64, Limit: pageItems}}
		if err := sh.Apply(ctx, &b); err != nil {
			return err
		}
	}
	return metaRecords(ctx, sh, func(b *store.Batch) error {
		for i := range b.MetaRecords {
			b.MetaRecords[i].Value = nil
		}
		return sh.Apply(ctx, b)
	})
}

// tally counts what moves, and sums it up. It is safe for concurrent use.
type tally struct {
	records, runs, meta atomic.Int64

	mu     sync.Mutex
	digest Digest
}

// add is called when a batch has been moved.
func (t *tally) add(partition int, b *store.Batch, p Progress) error {
	d, err := DigestOf(partition, b)
	if err != nil {
		return err
	}
	t.records.Add(int64(len(b.Puts)))
	t.runs.Add(int64(len(b.Runs)))
	t.meta.Add(int64(len(b.MetaRecords)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.digest.Add(d)
	if p != nil {
		p(t.counts())
	}
	return nil
}

func (t *tally) counts() Counts { return Counts{t.records.Load(), t.runs.Load(), t.meta.Load()} }

// result is what was moved, when nothing moves any more.
func (t *tally) result() Result { return Result{t.counts(), t.digest} }

package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// Arrived is called when everything has arrived in the store to fill, and before that may be served, with the
// head of what was read. After its error the store is still one that is being filled. Nil: nothing is done.
type Arrived func(ctx context.Context, h Head) error

func (a Arrived) call(ctx context.Context, h Head) error {
	if a == nil {
		return nil
	}
	return a(ctx, h)
}

// Depose marks a store as moved, so that no node serves it any more. Its nodes must be stopped. It must be
// the store that h is of. One that has marks already is frozen and marked all the same: a call that was
// killed may have left partitions without, and nodes on them.
func Depose(ctx context.Context, s store.Store, h Head) (err error) {
	if !bytes.Equal(s.Meta().MACKey, h.MACKey) {
		return ErrNotItsStore
	}
	if err := Usable(ctx, s); err != nil && !errors.Is(err, store.ErrMoved) {
		return err
	}
	f, work, err := freeze(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.thaw(ctx)) }()
	usable, err := f.usable(work)
	if err != nil {
		return cause(work, err)
	}
	if err := f.mark(work, store.MoveMoved); err != nil {
		// Only partitions that could be served before are to be served again.
		return errors.Join(err, f.unmark(context.WithoutCancel(ctx), func(p int) bool { return usable[p] }))
	}
	return nil
}

// usable reports of each partition whether it may be served: it has no mark, not even a damaged one.
func (f *frozen) usable(ctx context.Context) ([]bool, error) {
	all := make([]bool, len(f.shards))
	for p, sh := range f.shards {
		found, err := sh.MetaRecords(ctx, store.MoveMarks)
		if err == nil {
			err = store.CheckMove(found)
		}
		all[p] = err == nil
		if err != nil && !errors.Is(err, store.ErrMoved) && !errors.Is(err, store.ErrDamaged) {
			return nil, fmt.Errorf("the mark of partition %d: %w", p, err)
		}
	}
	return all, nil
}

// ErrNotItsStore is that a backup is of another store.
var ErrNotItsStore = errors.New("it is not the store that the backup is of, nor a copy of that")

// DeposeLive is Depose while nodes serve the store. They end. Where it fails they go on.
//
// Nodes mark only partitions of which they have told everything, as for [MigrateLive]: what they tell is read
// and dropped.
func DeposeLive(ctx context.Context, from Nodes, h Head) (err error) {
	l, cancel := newLiveCopy(ctx, from)
	defer cancel(nil)
	l.to = nowhere{}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.begin(); err != nil {
		return err
	}
	if !bytes.Equal(l.h.MACKey, h.MACKey) {
		return ErrNotItsStore
	}
	if err := l.end(func(c cut) error { return l.move(c.held) }); err != nil {
		return fmt.Errorf("have the nodes end: %w", cause(l.ctx, err))
	}
	return nil
}

// nowhere drops what is put.
type nowhere struct{}

func (nowhere) put(context.Context, int, written) error { return nil }
func (nowhere) flush(context.Context) error             { return nil }

package sealed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// Renew is a [transfer.Reshape]: what moves is encrypted with the primary key, be it readable before or
// encrypted with another key. The new store needs no other key.
func (b *Box) Renew(ctx context.Context, from transfer.Source) (transfer.Reshaped, error) {
	var marks []store.MetaRecord
	var mu sync.Mutex
	note := func(_ context.Context, _ int, batch *store.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		marks = append(marks, batch.MetaRecords...)
		return nil
	}
	err := from.Kinds(ctx, string([]byte{store.KindSeal}), note)
	if err == nil {
		err = b.Check(marks)
	}
	if err != nil {
		return nil, err
	}
	return &renewal{from: from, box: b}, nil
}

// renewal is what a store is to hold whose records are encrypted again.
type renewal struct {
	from transfer.Source
	box  *Box

	mu      sync.Mutex
	was, is transfer.Digest // of what is not encrypted
	marked  map[int]bool    // partitions that have the mark
}

// Head implements [transfer.Reshaped].
func (r *renewal) Head() transfer.Head { return r.from.Head() }

// Each implements [transfer.Reshaped].
func (r *renewal) Each(ctx context.Context, take transfer.Taker) error {
	r.was, r.marked = transfer.Digest{}, map[int]bool{}
	return r.from.Each(ctx, func(ctx context.Context, p int, b *store.Batch) error {
		open, err := r.open(p, b, &r.was)
		if err != nil {
			return err
		}
		out, used, err := r.box.Batch(open)
		if err != nil {
			return err
		}
		r.mu.Lock()
		marks := len(used) > 0 && !r.marked[p]
		r.marked[p] = r.marked[p] || marks
		r.mu.Unlock()
		if marks {
			m, err := r.box.markOf(used[0])
			if err != nil {
				return err
			}
			out.MetaRecords = append(slices.Clip(out.MetaRecords), m)
		}
		return take(ctx, p, out)
	})
}

// open returns a batch in the clear and without marks, and adds it to a digest.
func (r *renewal) open(p int, b *store.Batch, to *transfer.Digest) (*store.Batch, error) {
	box := r.box.Keeping() // a text that is replaced by an error would be lost
	open := &store.Batch{Puts: box.open(slices.Clone(b.Puts)), Runs: box.openRuns(slices.Clone(b.Runs))}
	isMark := func(m store.MetaRecord) bool { return m.Kind == store.KindSeal }
	open.MetaRecords = box.openMeta(slices.DeleteFunc(slices.Clone(b.MetaRecords), isMark))
	if err := unopened(open); err != nil {
		return nil, err
	}
	d, err := transfer.DigestOf(p, open)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	to.Add(d)
	return open, nil
}

// unopened is an error if something could not be decrypted: it would not be, in the new store, either.
func unopened(b *store.Batch) error {
	is := func(err error, what, name string) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("the %s %q: %w: nothing of the old store was changed; examine it with carillon doctor "+
			"--encryption-keys FILE", what, name, err)
	}
	for i := range b.Puts {
		r := &b.Puts[i]
		what := "job"
		if r.Seq != 0 {
			what = fmt.Sprintf("pending run %d of", r.Seq)
		}
		if err := is(Unopened(r), what, r.Key.String()); err != nil {
			return err
		}
	}
	for i := range b.Runs {
		r := &b.Runs[i]
		if err := is(UnopenedRun(r), fmt.Sprintf("run %s of", r.ID), r.Key.String()); err != nil {
			return err
		}
	}
	for i := range b.MetaRecords {
		r := &b.MetaRecords[i]
		if err := is(UnopenedMeta(r), fmt.Sprintf("metadata record of kind %q", r.Kind), r.Key); err != nil {
			return err
		}
	}
	return nil
}

// Back implements [transfer.Reshaped].
func (r *renewal) Back(p int, b *store.Batch) error {
	_, err := r.open(p, b, &r.is)
	return err
}

// Whole implements [transfer.Reshaped].
func (r *renewal) Whole() error {
	if r.was != r.is {
		return errors.New("what is encrypted in the new store is not what there was")
	}
	return nil
}

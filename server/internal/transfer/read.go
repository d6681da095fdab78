package transfer

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon/server/store"
)

const (
	// pageItems are read at once.
	pageItems = 256
	// largeItems are read at once of those that may have a payload each, which is not left out.
	largeItems = 8
	// longSpec: longer specs are read one by one, so that a page is not too large.
	longSpec = 16 << 10
	// atOnce is how many partitions are read or written at the same time.
	atOnce = 4
	// lastKind is the last letter of kinds of metadata records.
	lastKind = 'z'
)

// Each implements [Source].
func (f *frozen) Each(ctx context.Context, take Taker) error { return f.shardwise(ctx, take, Contents) }

// Kinds implements [Source].
func (f *frozen) Kinds(ctx context.Context, kinds string, take Taker) error {
	read := func(ctx context.Context, sh store.Shard, take func(*store.Batch) error) error {
		for _, kind := range []byte(kinds) {
			if err := metaKind(ctx, sh, kind, take); err != nil {
				return err
			}
		}
		return nil
	}
	return f.shardwise(ctx, take, read)
}

// shardwise has read call take for what it reads of each partition.
func (f *frozen) shardwise(ctx context.Context, take Taker,
	read func(context.Context, store.Shard, func(*store.Batch) error) error) error {
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(atOnce)
	for p, sh := range f.shards {
		calls.Go(func() error {
			return read(ctx, sh, func(b *store.Batch) error { return take(ctx, p, b) })
		})
	}
	return calls.Wait()
}

// Contents calls take for batches of everything that a partition holds: jobs and pending runs, then finished
// runs, then metadata records. The partition may change meanwhile: what is there all the time is in them.
func Contents(ctx context.Context, sh store.Shard, take func(*store.Batch) error) error {
	if err := records(ctx, sh, take); err != nil {
		return err
	}
	if err := runs(ctx, sh, take); err != nil {
		return err
	}
	return metaRecords(ctx, sh, take)
}

// SumUp reads everything that a partition holds.
func SumUp(ctx context.Context, partition int, sh store.Shard) (Result, error) {
	var all tally
	err := Contents(ctx, sh, func(b *store.Batch) error { return all.add(partition, b, nil) })
	return all.result(), err
}

// records reads jobs and pending runs.
func records(ctx context.Context, sh store.Shard, take func(*store.Batch) error) error {
	q := store.ListQuery{Limit: pageItems, MaxSpec: longSpec, Pending: true}
	for {
		page, err := sh.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		last := page[len(page)-1].Ref
		var long []store.Ref
		page = slices.DeleteFunc(page, func(r store.Record) bool {
			left := r.Spec == nil && (r.Seq == 0 || r.State.OwnSpec)
			if left {
				long = append(long, r.Ref)
			}
			return left
		})
		if len(page) > 0 {
			if err := take(&store.Batch{Puts: page}); err != nil {
				return err
			}
		}
		for _, ref := range long {
			one, err := sh.Read(ctx, []store.Ref{ref})
			if err != nil {
				return err
			}
			if !one[0].Exists {
				continue // it has been deleted meanwhile
			}
			if err := take(&store.Batch{Puts: one}); err != nil {
				return err
			}
		}
		q.Past(last)
	}
}

// runs reads finished runs.
func runs(ctx context.Context, sh store.Shard, take func(*store.Batch) error) error {
	q := store.RunQuery{All: true, Limit: largeItems}
	for {
		page, err := sh.Runs(ctx, q)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		q.After = page[len(page)-1].Cursor
		for i := range page {
			page[i].Cursor = nil
		}
		if err := take(&store.Batch{Runs: page}); err != nil {
			return err
		}
	}
}

// metaRecords reads metadata records of all kinds, but for those that belong to the store itself.
func metaRecords(ctx context.Context, sh store.Shard, take func(*store.Batch) error) error {
	for kind := byte('a'); kind <= lastKind; kind++ {
		if kind == store.KindProbe || kind == store.KindMove {
			continue
		}
		if err := metaKind(ctx, sh, kind, take); err != nil {
			return err
		}
	}
	return nil
}

// metaKind reads metadata records of a kind.
func metaKind(ctx context.Context, sh store.Shard, kind byte, take func(*store.Batch) error) error {
	q := store.MetaQuery{Kind: kind, Limit: largeItems}
	for {
		page, err := sh.MetaRecords(ctx, q)
		if err != nil {
			return err
		}
		if len(page) > 0 {
			q.After = page[len(page)-1].Key
			if err := take(&store.Batch{MetaRecords: page}); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil // not before the next page is empty: the only key of a kind may be empty, too
		}
	}
}

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
	// largeItems are read at once of those that may have a payload each, which is not left out, and up to
	// mostLarge as long as they are small: together not longer than largeBytes.
	largeItems = 8
	mostLarge  = 16
	largeBytes = 256 << 10
	// passBytes is about how long the finished runs or metadata records are, at most, that are passed on as one
	// batch, and pageItems is how many. A store makes each batch durable by itself, which takes a while.
	passBytes = 1 << 20
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
	q, next := store.RunQuery{All: true, Limit: largeItems}, passing{take: take}
	for {
		page, err := sh.Runs(ctx, q)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return next.pass()
		}
		q.After = page[len(page)-1].Cursor
		all := 0
		for i := range page {
			page[i].Cursor = nil
			bytes := len(page[i].Spec) + len(page[i].Response) + smallItem
			if err := next.room(bytes); err != nil {
				return err
			}
			next.batch.Runs = append(next.batch.Runs, page[i])
			all += bytes
		}
		q.Limit = pageAfter(q.Limit, all)
	}
}

// passing gathers what may be large, and passes it on as batches that are not too large, if the single thing
// is not.
type passing struct {
	take         func(*store.Batch) error
	batch        store.Batch
	items, bytes int
}

// smallItem is about how long an item is that has no payload.
const smallItem = 256

// room makes room for one more item of so many bytes.
func (p *passing) room(bytes int) error {
	if p.items == pageItems || p.bytes+bytes > passBytes {
		if err := p.pass(); err != nil {
			return err
		}
	}
	p.items, p.bytes = p.items+1, p.bytes+bytes
	return nil
}

// pass passes on what has been gathered.
func (p *passing) pass() error {
	if p.items == 0 {
		return nil
	}
	b := p.batch
	p.batch, p.items, p.bytes = store.Batch{}, 0, 0
	return p.take(&b)
}

// pageAfter is how many items are read at once after a page of so many bytes.
func pageAfter(limit, bytes int) int {
	if bytes > largeBytes {
		return largeItems
	}
	return min(2*limit, mostLarge)
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
	q, next := store.MetaQuery{Kind: kind, Limit: largeItems}, passing{take: take}
	for {
		page, err := sh.MetaRecords(ctx, q)
		if err != nil {
			return err
		}
		all := 0
		for i := range page {
			bytes := len(page[i].Key) + len(page[i].Value) + smallItem
			if err := next.room(bytes); err != nil {
				return err
			}
			next.batch.MetaRecords = append(next.batch.MetaRecords, page[i])
			all += bytes
		}
		if len(page) < q.Limit {
			return next.pass() // not before the next page is empty: the only key of a kind may be empty, too
		}
		q.After, q.Limit = page[len(page)-1].Key, pageAfter(q.Limit, all)
	}
}

package engine

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// metaRecordsAtOnce is how many metadata records are read at a time.
const metaRecordsAtOnce = 1000

// eachMetaRecord calls f with all metadata records that the query selects, page by page. It ignores the
// query's limit.
func eachMetaRecord(ctx context.Context, shard store.Shard, q store.MetaQuery,
	f func(page []store.MetaRecord)) error {
	q.Limit = metaRecordsAtOnce
	for {
		page, err := shard.MetaRecords(ctx, q)
		if err != nil {
			return fmt.Errorf("metadata records of kind %q: %w", q.Kind, err)
		}
		f(page)
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].Key
	}
}

// allMetaRecords reads all metadata records of a kind.
func allMetaRecords(ctx context.Context, shard store.Shard, kind byte) (all []store.MetaRecord, err error) {
	err = eachMetaRecord(ctx, shard, store.MetaQuery{Kind: kind},
		func(page []store.MetaRecord) { all = append(all, page...) })
	return all, err
}

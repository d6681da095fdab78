package engine

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/server/store"
)

// metaRecordsAtOnce is how many metadata records are read at a time.
const metaRecordsAtOnce = 1000

// allMetaRecords reads all metadata records that the query selects, page by page. It ignores the query's
// limit.
func allMetaRecords(ctx context.Context, shard store.Shard, q store.MetaQuery) (all []store.MetaRecord,
	err error) {
	q.Limit = metaRecordsAtOnce
	for {
		page, err := shard.MetaRecords(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("metadata records of kind %q: %w", q.Kind, err)
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			return all, nil
		}
		q.After = page[len(page)-1].Key
	}
}

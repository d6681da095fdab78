package engine

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon/store"
)

// smallAtOnce is how many small records are read at a time.
const smallAtOnce = 1000

// eachSmall reads the small records that the query selects, whatever its limit, page by page.
func eachSmall(ctx context.Context, shard store.Shard, q store.SmallQuery, f func(page []store.Small)) error {
	q.Limit = smallAtOnce
	for {
		page, err := shard.Small(ctx, q)
		if err != nil {
			return fmt.Errorf("small records of kind %q: %w", q.Kind, err)
		}
		f(page)
		if len(page) < q.Limit {
			return nil
		}
		q.After = page[len(page)-1].Key
	}
}

// allSmall reads all small records of a kind.
func allSmall(ctx context.Context, shard store.Shard, kind byte) (all []store.Small, err error) {
	err = eachSmall(ctx, shard, store.SmallQuery{Kind: kind}, func(page []store.Small) { all = append(all, page...) })
	return all, err
}

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/store"
)

var _ store.Gatherer = (*Store)(nil)

// gatherAtOnce is how many records a statement gathers.
const gatherAtOnce = 4096

const gatherSQL = `
SELECT partition, key, value FROM carillon_small
WHERE kind = $1 AND partition = ANY ($2::int[]) AND (partition, key) > ($3, $4) ORDER BY partition, key LIMIT $5`

// gathered is a metadata record and where it is.
type gathered struct {
	partition int32
	key       []byte
	value     []byte
}

// Gather implements [store.Gatherer].
func (s *Store) Gather(ctx context.Context, kind byte, partitions []int) ([][]store.MetaRecord, error) {
	place, numbers, err := s.places(partitions)
	if err != nil {
		return nil, err
	}
	out := make([][]store.MetaRecord, len(partitions))
	for last := (gathered{partition: -1, key: []byte{}}); ; {
		page, err := query(ctx, s, scanGathered, gatherSQL, int16(kind), numbers, last.partition,
			last.key, gatherAtOnce)
		if err != nil {
			return nil, err
		}
		for _, g := range page {
			of := &out[place[g.partition]]
			*of = append(*of, store.MetaRecord{Kind: kind, Key: string(g.key), Value: g.value})
		}
		if len(page) < gatherAtOnce {
			return out, nil
		}
		last = page[len(page)-1]
	}
}

func scanGathered(row pgx.CollectableRow) (g gathered, err error) {
	err = row.Scan(&g.partition, &g.key, &g.value)
	return g, err
}

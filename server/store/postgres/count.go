package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/server/store"
)

var _ store.Counter = (*Store)(nil)

// The partial indexes hold nothing but what is counted.
const (
	countStagedSQL = `
SELECT partition, queue, count(*), min(run_due) FROM carillon_jobs WHERE phase = 2 AND partition = ANY ($1::int[]) GROUP BY partition, queue`
	countDeadSQL = `
SELECT partition, namespace, count(*), 0::bigint FROM carillon_runs WHERE status = 6 AND partition = ANY ($1::int[]) GROUP BY partition, namespace`
)

// counted is one row of a count.
type counted struct {
	partition int32
	name      string
	n, oldest int64
}

func scanCounted(row pgx.CollectableRow) (c counted, err error) {
	err = row.Scan(&c.partition, &c.name, &c.n, &c.oldest)
	return c, err
}

// Count implements [store.Counter] with one statement for each of the two counts.
func (s *Store) Count(ctx context.Context, partitions []int) ([]store.Counts, error) {
	place, numbers, err := s.places(partitions)
	if err != nil {
		return nil, err
	}
	out := make([]store.Counts, len(partitions))
	for i := range out {
		out[i] = store.NewCounts()
	}
	staged, err := query(ctx, s, scanCounted, countStagedSQL, numbers)
	if err != nil {
		return nil, err
	}
	for _, c := range staged {
		out[place[c.partition]].AddStaged(queueOf(c.name), int(c.n), c.oldest)
	}
	dead, err := query(ctx, s, scanCounted, countDeadSQL, numbers)
	if err != nil {
		return nil, err
	}
	for _, c := range dead {
		out[place[c.partition]].Dead[c.name] = int(c.n)
	}
	return out, nil
}

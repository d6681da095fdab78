package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon/store"
)

var _ store.Counter = (*Store)(nil)

// The partial indexes hold nothing but what is counted.
const (
	countStagedSQL = `
SELECT queue, count(*), min(run_due) FROM carillon_jobs WHERE phase = 2 AND partition = ANY ($1::int[]) GROUP BY queue`
	countDeadSQL = `
SELECT namespace, count(*), 0::bigint FROM carillon_runs WHERE status = 6 AND partition = ANY ($1::int[]) GROUP BY namespace`
)

// counted is one row of a count.
type counted struct {
	name      string
	n, oldest int64
}

func scanCounted(rows pgx.Rows) (c counted, err error) {
	err = rows.Scan(&c.name, &c.n, &c.oldest)
	return c, err
}

// Count implements [store.Counter] with one statement for each of the two counts.
func (s *Store) Count(ctx context.Context, partitions []int) (store.Counts, error) {
	numbers := make([]int32, len(partitions))
	for i, p := range partitions {
		if err := s.known(p); err != nil {
			return store.Counts{}, err
		}
		numbers[i] = int32(p)
	}
	out := store.NewCounts()
	staged, err := query(ctx, s, scanCounted, countStagedSQL, numbers)
	if err != nil {
		return store.Counts{}, err
	}
	for _, c := range staged {
		out.AddStaged(queueOf(c.name), int(c.n), c.oldest)
	}
	dead, err := query(ctx, s, scanCounted, countDeadSQL, numbers)
	if err != nil {
		return store.Counts{}, err
	}
	for _, c := range dead {
		out.Dead[c.name] = int(c.n)
	}
	return out, nil
}

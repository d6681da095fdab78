package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

var _ store.Counter = (*Store)(nil)

// The partial indexes hold nothing but what is counted.
const (
	countStagedSQL = `
SELECT partition, queue, count(*), min(run_due) FROM carillon_jobs WHERE phase = 2 AND partition = ANY ($1::int[]) GROUP BY partition, queue`
	countDeadSQL = `
SELECT partition, namespace, count(*), 0::bigint FROM carillon_runs WHERE status = 6 AND partition = ANY ($1::int[]) GROUP BY partition, namespace`
	countPhasesSQL = `
SELECT partition, phase::text, count(*), phase::bigint FROM carillon_jobs WHERE phase <> 0 AND seq = 0 AND partition = ANY ($1::int[]) 
GROUP BY partition, phase`
	countJobsSQL = `
SELECT partition, '', count(*), 0::bigint FROM carillon_jobs WHERE seq = 0 AND partition = ANY ($1::int[]) GROUP BY partition`
)

// counted is one row of a count.
type counted struct {
	partition int32
	name      string
	n, oldest int64 // of phases: how many, and which
}

func scanCounted(row pgx.CollectableRow) (c counted, err error) {
	err = row.Scan(&c.partition, &c.name, &c.n, &c.oldest)
	return c, err
}

// Count implements [store.Counter] with one statement for each of the three counts.
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
	phases, err := query(ctx, s, scanCounted, countPhasesSQL, numbers)
	if err != nil {
		return nil, err
	}
	for _, c := range phases {
		out[place[c.partition]].Phases[carillon.Phase(c.oldest)] = int(c.n)
	}
	return out, nil
}

// CountJobs implements [store.Counter] with a scan of the primary key.
func (s *Store) CountJobs(ctx context.Context, partitions []int) ([]int, error) {
	place, numbers, err := s.places(partitions)
	if err != nil {
		return nil, err
	}
	jobs, err := query(ctx, s, scanCounted, countJobsSQL, numbers)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(partitions))
	for _, c := range jobs {
		out[place[c.partition]] = int(c.n)
	}
	return out, nil
}

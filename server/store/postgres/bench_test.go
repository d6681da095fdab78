package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/postgres"
)

// BenchmarkGroup puts new jobs, and then moves all of them in the due index as a tick does, in groups of 256
// over as many partitions as named, on a server as it comes: every commit is synced.
func BenchmarkGroup(b *testing.B) {
	server := realserver.StartPostgres(b)
	for _, partitions := range []int{1, 64} {
		s := open(b, server.Database(b), store.Options{})
		var shards []store.Shard
		for p := range partitions {
			shards = append(shards, own(b, s, p))
		}
		next := 0
		b.Run(fmt.Sprintf("put/%d", partitions), func(b *testing.B) {
			next = groups(b, s, shards, next, func(i int) store.Record { return job(i) })
		})
		moved := 0
		b.Run(fmt.Sprintf("tick/%d", partitions), func(b *testing.B) {
			moved = groups(b, s, shards, moved, func(i int) store.Record {
				r := job(i % max(1, next))
				r.Spec = nil
				r.State.Due += int64(i)
				return r
			})
		})
		b.Run(fmt.Sprintf("read/%d", partitions), func(b *testing.B) {
			for i := range b.N {
				if _, err := shards[i%partitions].Read(b.Context(), []store.Ref{job(i).Ref, job(i + 1).Ref}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGrowth lets 10,000 jobs run again and again, in groups of 64 runs over all partitions: an attempt
// is begun, ends, its run goes into the history, of which a job keeps 10. It reports what the tables need for
// a job, and what of that is dead. 50,000 runs: -benchtime 50000x.
func BenchmarkGrowth(b *testing.B) {
	const jobs, size, kept = 10_000, 64, 10
	server := realserver.StartPostgres(b, "fsync=off", "autovacuum_naptime=5s")
	s := open(b, server.Database(b), store.Options{})
	var shards []store.Shard
	for p := range 64 {
		shards = append(shards, own(b, s, p))
	}
	apply := func(from, n int, change func(batch *store.Batch, i int)) {
		writes := make([]store.Write, len(shards))
		for p := range writes {
			writes[p] = store.Write{Shard: shards[p], Batch: &store.Batch{}}
		}
		for i := from; i < from+n; i++ {
			change(writes[i%jobs%len(shards)].Batch, i)
		}
		if err := s.ApplyGroup(b.Context(), writes); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; i < jobs; i += 1000 {
		apply(i, 1000, func(batch *store.Batch, i int) { batch.Puts = append(batch.Puts, job(i)) })
	}
	b.ResetTimer()
	for i := 0; i < b.N; i += size {
		apply(i, size, func(batch *store.Batch, i int) {
			r := job(i % jobs)
			r.Spec, r.State.Due, r.State.Phase = nil, r.State.Due+int64(i), carillon.PhaseRunning
			r.State.Run = store.RunState{Live: true, Scheduled: int64(i), Due: int64(i), Attempt: 1, Lease: int64(i)}
			batch.Puts = append(batch.Puts, r)
		})
		apply(i, size, func(batch *store.Batch, i int) {
			r := job(i % jobs)
			r.Spec, r.State.Due = nil, r.State.Due+int64(i)+1
			run := finished(i%jobs, carillon.RunSucceeded)
			run.ID.Scheduled, run.ID.Partition, run.Expires = int64(i), uint16(i%jobs%len(shards)), int64(i)
			batch.Puts, batch.Runs = append(batch.Puts, r), append(batch.Runs, run)
			if i/jobs%5 == 4 {
				batch.Trims = append(batch.Trims, store.Trim{Key: r.Key, Keep: kept})
			}
		})
	}
	b.StopTimer()
	c, err := pgx.Connect(b.Context(), server.URL("test_1"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close(b.Context()) }()
	for _, of := range []string{"carillon_jobs", "carillon_runs"} {
		b.ReportMetric(float64(value[int64](b, c, "SELECT pg_table_size($1)", of))/jobs, of+"-bytes/job")
		b.ReportMetric(float64(value[int64](b, c, "SELECT pg_indexes_size($1)", of))/jobs, of+"-index-bytes/job")
		b.ReportMetric(value[float64](b, c,
			"SELECT n_dead_tup::float8 / greatest(n_live_tup, 1) FROM pg_stat_user_tables WHERE relname = $1", of),
			of+"-dead/live")
		b.ReportMetric(value[float64](b, c,
			"SELECT n_tup_hot_upd::float8 / greatest(n_tup_upd, 1) FROM pg_stat_user_tables WHERE relname = $1", of),
			of+"-hot/update")
	}
	rows, _ := c.Query(b.Context(), "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relname ~ '^carillon_(jobs|runs)'")
	var name string
	var bytes int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &bytes},
		func() error { b.Logf("%s %d KiB", name, bytes>>10); return nil }); err != nil {
		b.Fatal(err)
	}
}

// groups writes b.N groups of records from the next one on, and says which comes after them.
func groups(b *testing.B, s *postgres.Store, shards []store.Shard, next int,
	record func(i int) store.Record) int {
	b.Helper()
	const size = 256
	began := time.Now()
	for range b.N {
		writes := make([]store.Write, len(shards))
		for p := range writes {
			writes[p] = store.Write{Shard: shards[p], Batch: &store.Batch{}}
		}
		for range size {
			batch := writes[next%len(shards)].Batch
			batch.Puts = append(batch.Puts, record(next))
			next++
		}
		if err := s.ApplyGroup(b.Context(), writes); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*size)/time.Since(began).Seconds(), "records/s")
	return next
}

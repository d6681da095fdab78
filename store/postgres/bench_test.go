package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/realserver"
	"github.com/carillonhq/carillon/store"
	"github.com/carillonhq/carillon/store/postgres"
)

// BenchmarkGroup puts new jobs, and then moves all of them in the due index as a tick does, in groups of 256 over as many
// partitions as named, on a server as it comes: every commit is synced.
func BenchmarkGroup(b *testing.B) {
	server := realserver.StartPostgres(b)
	for _, partitions := range []int{1, 64} {
		s := open(b, server.Database(b), postgres.Options{})
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

// groups writes b.N groups of records from the next one on, and says which comes after them.
func groups(b *testing.B, s *postgres.Store, shards []store.Shard, next int, record func(i int) store.Record) int {
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

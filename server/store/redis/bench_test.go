package redis_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
)

// The benchmarks work on a real server with real fsyncs: one owner goroutine per partition, each applying
// batches of a few records, as an engine under load does. An op is a record.

const benchOwners = 64

var benchSpec = bytes.Repeat([]byte("payload "), 25) // 200 bytes

func benchJob(i int) store.Record {
	r := job(fmt.Sprintf("orders/%08x-reminder", uint32(i)*2654435761))
	r.Spec, r.State.UID, r.State.Due = benchSpec, store.NewUID(r.Key, [8]byte{}), r.State.Due+int64(i)
	r.State.Created, r.State.Anchor, r.State.Next = r.State.Due, r.State.Due, r.State.Due
	return r
}

// benchRun is the finished run of a job.
func benchRun(i int) store.RunRecord {
	r := benchJob(i)
	return store.RunRecord{Key: r.Key, ID: store.RunID{UID: r.State.UID, Scheduled: r.State.Due},
		Status: carillon.RunSucceeded, Finished: r.State.Due, Expires: r.State.Due, Attempt: 1}
}

// benchWrite has each owner write its part of n records in batches that fill makes.
func benchWrite(b *testing.B, shards []store.Shard, n, size int, fill func(b *store.Batch, i int)) {
	b.Helper()
	var wg sync.WaitGroup
	for p, sh := range shards {
		wg.Go(func() {
			var batch store.Batch
			for i, in := p, 0; i < n; i += len(shards) {
				fill(&batch, i)
				if in++; in == size || i+len(shards) >= n {
					if err := sh.Apply(b.Context(), &batch); err != nil {
						b.Error(err)
						return
					}
					batch, in = store.Batch{}, 0
				}
			}
		})
	}
	wg.Wait()
}

func benchShards(b *testing.B, r *realserver.Redis) []store.Shard {
	b.Helper()
	s := open(b, fresh(r))
	shards := make([]store.Shard, benchOwners)
	for p := range shards {
		shards[p], _ = own(b, s, p)
	}
	return shards
}

// benchRate measures f as so many records a second.
func benchRate(b *testing.B, f func()) {
	b.Helper()
	b.ResetTimer()
	began := time.Now()
	f()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "records/s")
}

func put(b *store.Batch, i int) { b.Puts = append(b.Puts, benchJob(i)) }

// BenchmarkPut puts new jobs.
func BenchmarkPut(b *testing.B) {
	for _, fsync := range []string{"always", "everysec"} {
		for _, size := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("fsync=%s/batch=%d", fsync, size), func(b *testing.B) {
				shards := benchShards(b, realserver.StartRedis(b, "appendfsync="+fsync))
				benchRate(b, func() { benchWrite(b, shards, b.N, size, put) })
			})
		}
	}
}

// BenchmarkFinish finishes one-shots: each goes, and leaves a run in the history.
func BenchmarkFinish(b *testing.B) {
	for _, fsync := range []string{"always", "everysec"} {
		b.Run("fsync="+fsync, func(b *testing.B) {
			shards := benchShards(b, realserver.StartRedis(b, "appendfsync="+fsync))
			benchWrite(b, shards, b.N, 64, put)
			benchRate(b, func() {
				benchWrite(b, shards, b.N, 8, func(batch *store.Batch, i int) {
					run := benchRun(i)
					batch.Deletes = append(batch.Deletes, store.Ref{Key: run.Key})
					batch.Runs = append(batch.Runs, run)
				})
			})
		})
	}
}

// BenchmarkTick moves the due time of recurring jobs.
func BenchmarkTick(b *testing.B) {
	for _, fsync := range []string{"always", "everysec"} {
		b.Run("fsync="+fsync, func(b *testing.B) {
			const jobs = 64_000
			shards := benchShards(b, realserver.StartRedis(b, "appendfsync="+fsync))
			benchWrite(b, shards, jobs, 64, put)
			benchRate(b, func() {
				benchWrite(b, shards, b.N, 8, func(batch *store.Batch, i int) {
					r := benchJob(i % jobs)
					r.Spec, r.State.Due = nil, r.State.Due+int64(i)
					batch.Puts = append(batch.Puts, r)
				})
			})
		})
	}
}

// BenchmarkMemory is what Redis needs for a job of 200 bytes, and for a finished run.
func BenchmarkMemory(b *testing.B) {
	for what, fill := range map[string]func(b *store.Batch, i int){"job": put,
		"run": func(b *store.Batch, i int) { b.Runs = append(b.Runs, benchRun(i)) }} {
		b.Run(what, func(b *testing.B) {
			r := realserver.StartRedis(b, "appendonly=no")
			shards := benchShards(b, r)
			before := memory(b, r)
			benchWrite(b, shards, b.N, 64, fill)
			b.ReportMetric(float64(memory(b, r)-before)/float64(b.N), "bytes/record")
		})
	}
}

// memory is what a server uses, in bytes.
func memory(b *testing.B, r *realserver.Redis) (n int) {
	b.Helper()
	_, rest, _ := strings.Cut(r.Do(b, "INFO", "memory"), "used_memory:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		b.Fatal(err)
	}
	return n
}

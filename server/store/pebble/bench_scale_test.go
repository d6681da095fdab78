package pebble_test

import (
	"bytes"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// scaleJobs is the size of the benchmarks about size; CARILLON_BENCH_JOBS sets another.
func scaleJobs(b *testing.B) int {
	b.Helper()
	text := os.Getenv("CARILLON_BENCH_JOBS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// resident is the process's memory in MiB.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

func farFuture(i int) int64 { return 2_000_000_000_000_000_000 + int64(i)*int64(time.Millisecond) }

// scan reads the first records that are due in each partition.
func scan(b *testing.B, shards []store.Shard, limit int) (n int) {
	b.Helper()
	for _, sh := range shards {
		got, err := sh.Due(b.Context(), store.DueQuery{Priority: 2, Until: math.MaxInt64, Limit: limit,
			MaxSpec: 1 << 10})
		if err != nil {
			b.Fatal(err)
		}
		n += len(got)
	}
	return n
}

// BenchmarkOpen opens a store of many far-future jobs and loads the first 1500 of each partition, as a node
// does at its start. What was in the memtable is in the log only, as after a kill: Pebble writes no table
// when it is closed.
func BenchmarkOpen(b *testing.B) {
	jobs, dir := scaleJobs(b), b.TempDir()
	s, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	put(b, own(b, s, benchOwners), jobs, 64, farFuture)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		began, used := time.Now(), cpu()
		s, err := pebble.Open(dir, pebble.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "open-ms")
		b.ReportMetric(float64((cpu() - used).Milliseconds()), "open-CPU-ms")
		shards := own(b, s, benchOwners)
		scan(b, shards, 1500)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "loaded-ms")
		b.ReportMetric(float64((cpu() - used).Milliseconds()), "loaded-CPU-ms")
		b.ReportMetric(resident(b), "MiB")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTombstones finishes many one-shots, and then scans the due index from its start: with a mark, and
// after an open without one.
func BenchmarkTombstones(b *testing.B) {
	jobs, dir := scaleJobs(b), b.TempDir()
	s := open(b, dir, pebble.Options{})
	shards := own(b, s, benchOwners)
	put(b, shards, jobs, 64, farFuture)
	put(b, shards[:1], 1, 1, func(int) int64 { return math.MaxInt64 - 1 })
	split(b, shards, jobs, 64, func(sh store.Shard, ids []int) error {
		var batch store.Batch
		for _, i := range ids {
			batch.Deletes = append(batch.Deletes, store.Ref{Key: key(i)})
		}
		return sh.Apply(b.Context(), &batch)
	})
	for b.Loop() {
		began := time.Now()
		scan(b, shards, 10)
		b.ReportMetric(float64(time.Since(began).Microseconds())/benchOwners, "first-µs/partition")
		began = time.Now()
		scan(b, shards, 10)
		b.ReportMetric(float64(time.Since(began).Microseconds())/benchOwners, "next-µs/partition")
	}
}

package pebble_test

import (
	"bytes"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// The benchmarks work on a real folder with real fsyncs: one owner goroutine per partition, each applying
// batches of a few records, as an engine under load does. An op is a record.

const (
	benchOwners = 64
	benchBatch  = 8
)

var benchSpec = bytes.Repeat([]byte("payload "), 25) // 200 bytes

// cpu is the CPU time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure reports what n operations took.
func measure(b *testing.B, n int, f func()) {
	b.Helper()
	b.ResetTimer()
	used, began := cpu(), time.Now()
	f()
	elapsed := time.Since(began)
	b.StopTimer()
	b.ReportMetric(float64(n)/elapsed.Seconds(), "records/s")
	b.ReportMetric(float64((cpu()-used).Microseconds())/float64(n), "CPU-µs/op")
}

// split gives each shard its own records, i mod len(shards), in batches.
func split(b *testing.B, shards []store.Shard, n, batch int, f func(sh store.Shard, ids []int) error) {
	b.Helper()
	var wg sync.WaitGroup
	for p, sh := range shards {
		wg.Go(func() {
			var ids []int
			for i := p; i < n; i += len(shards) {
				ids = append(ids, i)
				if len(ids) == batch || i+len(shards) >= n {
					if err := f(sh, ids); err != nil {
						b.Error(err)
						return
					}
					ids = ids[:0]
				}
			}
		})
	}
	wg.Wait()
}

func benchStore(b *testing.B, owners int, opt pebble.Options) []store.Shard {
	b.Helper()
	return own(b, open(b, b.TempDir(), opt), owners)
}

func put(b *testing.B, shards []store.Shard, n, batch int, due func(i int) int64) {
	b.Helper()
	split(b, shards, n, batch, func(sh store.Shard, ids []int) error {
		var batch store.Batch
		for _, i := range ids {
			batch.Puts = append(batch.Puts, job(i, due(i), benchSpec))
		}
		return sh.Apply(b.Context(), &batch)
	})
}

func BenchmarkPut(b *testing.B) {
	for _, c := range []struct{ owners, batch int }{{1, 1}, {1, 256}, {64, 1}, {64, 8}, {64, 64}} {
		b.Run(fmt.Sprintf("owners=%d/batch=%d", c.owners, c.batch), func(b *testing.B) {
			shards := benchStore(b, c.owners, pebble.Options{})
			measure(b, b.N, func() {
				put(b, shards, b.N, c.batch, func(i int) int64 { return int64(1e18) + int64(i) })
			})
		})
	}
}

func BenchmarkFinish(b *testing.B) {
	for _, history := range []bool{false, true} {
		b.Run(fmt.Sprintf("history=%v", history), func(b *testing.B) {
			shards := benchStore(b, benchOwners, pebble.Options{})
			due := func(i int) int64 { return int64(1e18) + int64(i) }
			put(b, shards, b.N, 64, due)
			measure(b, b.N, func() {
				split(b, shards, b.N, benchBatch, func(sh store.Shard, ids []int) error {
					var batch store.Batch
					for _, i := range ids {
						r := job(i, due(i), nil)
						batch.Deletes = append(batch.Deletes, r.Ref)
						if history {
							batch.Runs = append(batch.Runs, finished(r, due(i)))
						}
					}
					return sh.Apply(b.Context(), &batch)
				})
			})
		})
	}
}

// BenchmarkLife is the whole life of one-shots, steadily: each is put, and finished with a history record
// when 64,000 others have been put.
func BenchmarkLife(b *testing.B) {
	for _, mib := range []int{16, 32} {
		b.Run(fmt.Sprintf("memtable=%dMiB", mib), func(b *testing.B) {
			shards := benchStore(b, benchOwners, pebble.Options{MemTableBytes: mib << 20})
			measure(b, b.N, func() { live(b, shards) })
		})
	}
}

// live puts b.N jobs and finishes each when 1000 others of its owner have been put.
func live(b *testing.B, shards []store.Shard) {
	b.Helper()
	const lag = 1000
	due := func(i int) int64 { return int64(1e18) + int64(i) }
	split(b, shards, b.N, benchBatch, func(sh store.Shard, ids []int) error {
		var born, gone store.Batch
		for _, i := range ids {
			born.Puts = append(born.Puts, job(i, due(i), benchSpec))
			if old := i - lag*benchOwners; old >= 0 {
				r := job(old, due(old), nil)
				gone.Deletes = append(gone.Deletes, r.Ref)
				gone.Runs = append(gone.Runs, finished(r, due(old)))
			}
		}
		if err := sh.Apply(b.Context(), &born); err != nil {
			return err
		}
		return sh.Apply(b.Context(), &gone)
	})
}

func BenchmarkTick(b *testing.B) {
	const jobs = 100_000
	for _, c := range []struct {
		name    string
		inline  int
		history bool
		batch   int
	}{
		{"spec=inline", 0, false, benchBatch}, {"spec=apart", -1, false, benchBatch},
		{"spec=inline/history", 0, true, benchBatch}, {"spec=inline/batch=64", 0, false, 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			shards := benchStore(b, benchOwners, pebble.Options{InlineSpec: c.inline})
			put(b, shards, jobs, 64, func(i int) int64 { return int64(1e18) + int64(i) })
			measure(b, b.N, func() {
				split(b, shards, b.N, c.batch, func(sh store.Shard, ids []int) error {
					var batch store.Batch
					for _, i := range ids {
						due := int64(1e18) + int64(i)
						r := job(i%(jobs-jobs%benchOwners), due+jobs, nil)
						batch.Puts = append(batch.Puts, r)
						if c.history {
							batch.Runs = append(batch.Runs, finished(r, due))
						}
					}
					return sh.Apply(b.Context(), &batch)
				})
			})
		})
	}
}

func BenchmarkDue(b *testing.B) {
	const jobs = 400_000
	for _, inline := range []int{0, -1} {
		b.Run(fmt.Sprintf("inline=%v", inline == 0), func(b *testing.B) {
			shards := benchStore(b, benchOwners, pebble.Options{InlineSpec: inline})
			put(b, shards, jobs, 64, func(i int) int64 { return int64(1e18) + int64(i) })
			n := 0
			measure(b, b.N, func() {
				var after store.Cursor
				for n < b.N {
					got, err := shards[n%benchOwners].Due(b.Context(),
						store.DueQuery{Priority: 2, After: after, Until: math.MaxInt64, Limit: 1000})
					if err != nil {
						b.Fatal(err)
					}
					n += len(got)
					after = store.Cursor{}
				}
			})
		})
	}
}

func BenchmarkRead(b *testing.B) {
	const jobs = 400_000
	for _, readers := range []int{1, 16} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			shards := benchStore(b, benchOwners, pebble.Options{})
			put(b, shards, jobs, 64, func(i int) int64 { return int64(1e18) + int64(i) })
			measure(b, b.N, func() {
				split(b, make([]store.Shard, readers), b.N, 1, func(_ store.Shard, ids []int) error {
					id := ids[0] * 7919 % jobs
					got, err := shards[id%benchOwners].Read(b.Context(), []store.Ref{{Key: key(id)}})
					if err == nil && !got[0].Exists {
						return fmt.Errorf("job %d is not there", id)
					}
					return err
				})
			})
		})
	}
}

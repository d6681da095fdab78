package servertest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// The benchmarks work on real servers with real fsyncs: one goroutine per partition, each applying batches of
// a few records, as an engine under load does. An operation is a record.

const owners = 64

var spec = bytes.Repeat([]byte("payload "), 25) // 200 bytes

// Reminder is a job with a spec of 200 bytes.
func Reminder(i int) store.Record {
	r := Job(fmt.Sprintf("orders/%08x-reminder", uint32(i)*2654435761))
	r.Spec, r.State.UID, r.State.Due = spec, store.NewUID(r.Key, [8]byte{}), r.State.Due+int64(i)
	r.State.Created, r.State.Anchor, r.State.Next = r.State.Due, r.State.Due, r.State.Due
	return r
}

// EndOf is the finished run of a job.
func EndOf(i int) store.RunRecord {
	r := Reminder(i)
	return store.RunRecord{Key: r.Key, ID: store.RunID{UID: r.State.UID, Scheduled: r.State.Due},
		Status: carillon.RunSucceeded, Finished: r.State.Due, Expires: r.State.Due, Attempt: 1}
}

// Write has each owner write its part of n records in batches that fill makes.
func Write(b *testing.B, shards []store.Shard, n, size int, fill func(b *store.Batch, i int)) {
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

// Shards claims as many partitions of a store as there are owners.
func Shards(b *testing.B, s store.Store) []store.Shard {
	b.Helper()
	shards := make([]store.Shard, owners)
	for p := range shards {
		shards[p], _ = Own(b, s, p)
	}
	return shards
}

// Rate measures f as so many records a second.
func Rate(b *testing.B, f func()) {
	b.Helper()
	b.ResetTimer()
	began := time.Now()
	f()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "records/s")
}

// Put adds the put of a job to a batch.
func Put(b *store.Batch, i int) { b.Puts = append(b.Puts, Reminder(i)) }

// BenchPut measures puts of new jobs, in batches of several sizes.
func BenchPut(b *testing.B, open func(b *testing.B) store.Store) {
	for _, size := range []int{1, 8, 64} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			shards := Shards(b, open(b))
			Rate(b, func() { Write(b, shards, b.N, size, Put) })
		})
	}
}

// BenchFinish measures one-shots that end: each goes, and leaves a run in the history.
func BenchFinish(b *testing.B, s store.Store) {
	b.Helper()
	shards := Shards(b, s)
	Write(b, shards, b.N, 64, Put)
	Rate(b, func() { Write(b, shards, b.N, 8, Finish) })
}

// Finish adds the end of a one-shot to a batch.
func Finish(batch *store.Batch, i int) {
	run := EndOf(i)
	batch.Deletes = append(batch.Deletes, store.Ref{Key: run.Key})
	batch.Runs = append(batch.Runs, run)
}

// BenchTick measures recurring jobs whose due time moves.
func BenchTick(b *testing.B, s store.Store) {
	b.Helper()
	const jobs = 64_000
	shards := Shards(b, s)
	Write(b, shards, jobs, 64, Put)
	Rate(b, func() {
		Write(b, shards, b.N, 8, func(batch *store.Batch, i int) {
			r := Reminder(i % jobs)
			r.Spec, r.State.Due = nil, r.State.Due+int64(i)
			batch.Puts = append(batch.Puts, r)
		})
	})
}

// Fills are what a store is filled with, to measure what it takes.
func Fills() map[string]func(b *store.Batch, i int) {
	return map[string]func(b *store.Batch, i int){"job": Put,
		"run": func(b *store.Batch, i int) { b.Runs = append(b.Runs, EndOf(i)) }}
}

// BenchMemory measures what the process that owns them needs for a job of 200 bytes, and for a finished run,
// where it keeps them in memory, and how long it takes to load them.
func BenchMemory(b *testing.B, open func(b *testing.B) store.Store,
	reopen func(b *testing.B, s store.Store) store.Store) {
	for what, fill := range Fills() {
		b.Run(what, func(b *testing.B) {
			s := open(b)
			shards := Shards(b, s)
			Write(b, shards, b.N, 64, fill)
			s = reopen(b, s)
			before := heap()
			b.ResetTimer()
			for p := range shards {
				sh, _ := Own(b, s, p)
				if _, err := sh.List(context.Background(), store.ListQuery{Limit: 1}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(heap()-before)/float64(b.N), "bytes/record")
		})
	}
}

// heap is what this process holds.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

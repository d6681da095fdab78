package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// The benchmarks work on a real etcd with real fsyncs: one owner goroutine per partition, each applying
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

func benchShards(b *testing.B, members ...*realserver.Etcd) []store.Shard {
	b.Helper()
	s := open(b, fresh(members...))
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

// onMembers measures on one member and on three.
func onMembers(b *testing.B, f func(b *testing.B, members []*realserver.Etcd)) {
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprint("members=", n), func(b *testing.B) {
			f(b, realserver.StartEtcdCluster(b, n, "quota-backend-bytes=8589934592"))
		})
	}
}

// BenchmarkPut puts new jobs.
func BenchmarkPut(b *testing.B) {
	onMembers(b, func(b *testing.B, members []*realserver.Etcd) {
		for _, size := range []int{1, 8, 64} {
			b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
				shards := benchShards(b, members...)
				benchRate(b, func() { benchWrite(b, shards, b.N, size, put) })
			})
		}
	})
}

// BenchmarkFinish finishes one-shots: each goes, and leaves a run in the history.
func BenchmarkFinish(b *testing.B) {
	onMembers(b, func(b *testing.B, members []*realserver.Etcd) {
		shards := benchShards(b, members...)
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

// BenchmarkTick moves the due time of recurring jobs.
func BenchmarkTick(b *testing.B) {
	onMembers(b, func(b *testing.B, members []*realserver.Etcd) {
		const jobs = 64_000
		shards := benchShards(b, members...)
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

// BenchmarkBare is what etcd's own client does with values of the size of a job: transactions of some puts,
// from as many goroutines as are on their way at once.
func BenchmarkBare(b *testing.B) {
	onMembers(b, func(b *testing.B, members []*realserver.Etcd) {
		c, err := clientv3.New(clientv3.Config{Endpoints: realserver.Addresses(members)})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		value := string(bytes.Repeat([]byte("v"), 330))
		for _, shape := range []struct{ size, at int }{{1, 64}, {8, 64}, {64, 64}, {120, 4}} {
			b.Run(fmt.Sprintf("puts=%d/goroutines=%d", shape.size, shape.at), func(b *testing.B) {
				benchRate(b, func() { bare(b, c, value, shape.size, shape.at) })
			})
		}
	})
}

func bare(b *testing.B, c *clientv3.Client, value string, size, goroutines int) {
	b.Helper()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g * size; i < b.N; i += goroutines * size {
				var ops []clientv3.Op
				for j := i; j < min(i+size, b.N); j++ {
					ops = append(ops, clientv3.OpPut(fmt.Sprintf("bare/%d/%08x-reminder", size, j), value))
				}
				if _, err := c.Txn(b.Context()).Then(ops...).Commit(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkMemory is what the node that owns them needs for a job of 200 bytes, and for a finished run, and
// how long it takes to load them.
func BenchmarkMemory(b *testing.B) {
	for what, fill := range map[string]func(b *store.Batch, i int){"job": put,
		"run": func(b *store.Batch, i int) { b.Runs = append(b.Runs, benchRun(i)) }} {
		b.Run(what, func(b *testing.B) {
			o := fresh(realserver.StartEtcd(b, append(realserver.VolatileEtcd(), "quota-backend-bytes=8589934592")...))
			s := open(b, o)
			shards := make([]store.Shard, benchOwners)
			for p := range shards {
				shards[p], _ = own(b, s, p)
			}
			benchWrite(b, shards, b.N, 64, fill)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			s = open(b, o)
			before := heap()
			b.ResetTimer()
			for p := range shards {
				sh, _ := own(b, s, p)
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

// BenchmarkLists measures lists of a store with much in it (-benchtime 500x).
func BenchmarkLists(b *testing.B) {
	storetest.BenchLists(b, open(b, fresh(realserver.StartEtcd(b, "quota-backend-bytes=8589934592"))))
}

package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
	"github.com/carillonhq/carillon/server/store/pebble"
)

// engines opens each store that the benchmarks run on.
var engines = map[string]func(b *testing.B) store.Store{
	"memory": func(*testing.B) store.Store { return memory.New(memory.Options{}) },
	"pebble": func(b *testing.B) store.Store {
		s, err := pebble.Open(b.TempDir(), pebble.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	},
}

// BenchmarkPut puts far-future one-shots from 128 callers, each durable before it is acknowledged.
func BenchmarkPut(b *testing.B) {
	for name, open := range engines {
		b.Run(name, func(b *testing.B) {
			n := start(b, open(b))
			b.ReportAllocs()
			b.SetParallelism(64)
			var next atomic.Int64
			due := carillon.At(time.Now().Add(365 * 24 * time.Hour))
			data := carillon.Bytes(make([]byte, 100), "")
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					j := carillon.Job{Name: fmt.Sprintf("job/%d", next.Add(1)), Due: due,
						Target: carillon.WorkerQueue("q"), Data: data}
					if _, err := n.PutJob(context.Background(), j); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			n.stop()
		})
	}
}

// BenchmarkHerd runs one-shots that are all due at one instant, each durably finished.
func BenchmarkHerd(b *testing.B) {
	for name, open := range engines {
		b.Run(name, func(b *testing.B) {
			n := start(b, open(b))
			batch := make([]carillon.Job, 0, carillon.MaxBatch)
			for i := range b.N {
				batch = append(batch, carillon.Job{Name: fmt.Sprintf("job/%d", i),
					Target: carillon.WorkerQueue("q"), Data: carillon.Bytes(make([]byte, 100), "")})
				if len(batch) == cap(batch) || i == b.N-1 {
					if _, err := n.PutJobs(context.Background(), batch); err != nil {
						b.Fatal(err)
					}
					batch = batch[:0]
				}
			}
			var done atomic.Int64
			all := make(chan struct{})
			b.ReportAllocs()
			b.ResetTimer()
			c := n.consume("q", 10_000, func(carillon.Run) *carillon.Result {
				if done.Add(1) == int64(b.N) {
					close(all)
				}
				return &carillon.Result{Outcome: carillon.OutcomeSuccess}
			})
			<-all
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			if err := c.Close(); err != nil {
				b.Error(err)
			}
			n.stop()
		})
	}
}

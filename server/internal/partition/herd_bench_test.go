package partition_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// benchWindow is the share of one of 64 partitions in a node's 100,000 records.
const benchWindow = 1562

// BenchmarkHerd loads, fires and finishes one-shots that are all due at one instant: far more than fit into
// memory.
func BenchmarkHerd(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fireHerd(b, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/run")
		})
	}
}

// fireHerd puts n jobs, moves the clock to their time and finishes them all.
func fireHerd(b *testing.B, n int) {
	r := newRig(b, partition.Config{WindowJobs: benchWindow})
	loadHerd(b, r, n)
	r.now = epoch + int64(time.Minute)
	for done := 0; done < n; {
		ds, _ := r.m.Deliver(nil, r.now, queueQ, 256, false, nil)
		for _, d := range ds {
			if v := r.succeed(d); v != partition.Accepted {
				b.Fatalf("verdict %v", v)
			}
		}
		done += len(ds)
		r.flush()
	}
}

// loadHerd puts n jobs that are due after a minute, in batches.
func loadHerd(b *testing.B, r *rig, n int) {
	due := carillon.At(time.Unix(0, epoch).Add(time.Minute))
	for i := range n {
		if _, err := r.put(carillon.Job{Name: fmt.Sprintf("job/%d", i), Due: due,
			Data: carillon.Bytes(make([]byte, 100), "")}); err != nil {
			b.Fatal(err)
		}
		if i%256 == 255 || i == n-1 {
			r.flush()
		}
	}
}

// BenchmarkResident measures the memory of a waiting record, including everything that refers to it.
func BenchmarkResident(b *testing.B) {
	const n = 20_000
	for b.Loop() {
		r := newRig(b, partition.Config{WindowJobs: n})
		loadHerd(b, r, n)
		with := heap()
		r.m = nil
		b.ReportMetric(float64(with-heap())/n, "B/record")
		runtime.KeepAlive(r.store)
	}
}

// heap returns the memory in use after a collection.
func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

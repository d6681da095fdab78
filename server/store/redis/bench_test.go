package redis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
)

// syncing measures on a server that syncs each write, and on one that syncs every second.
func syncing(b *testing.B, f func(b *testing.B, r *realserver.Redis)) {
	for _, fsync := range []string{"always", "everysec"} {
		b.Run("fsync="+fsync, func(b *testing.B) { f(b, realserver.StartRedis(b, "appendfsync="+fsync)) })
	}
}

func BenchmarkPut(b *testing.B) {
	syncing(b, func(b *testing.B, r *realserver.Redis) {
		servertest.BenchPut(b, func(b *testing.B) store.Store { return open(b, fresh(r)) })
	})
}

func BenchmarkFinish(b *testing.B) {
	syncing(b, func(b *testing.B, r *realserver.Redis) { servertest.BenchFinish(b, open(b, fresh(r))) })
}

func BenchmarkTick(b *testing.B) {
	syncing(b, func(b *testing.B, r *realserver.Redis) { servertest.BenchTick(b, open(b, fresh(r))) })
}

// BenchmarkMemory is what Redis needs for a job of 200 bytes, and for a finished run.
func BenchmarkMemory(b *testing.B) {
	for what, fill := range servertest.Fills() {
		b.Run(what, func(b *testing.B) {
			r := realserver.StartRedis(b, "appendonly=no")
			shards := servertest.Shards(b, open(b, fresh(r)))
			before := memory(b, r)
			servertest.Write(b, shards, b.N, 64, fill)
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

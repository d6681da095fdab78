package cassandra_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/cassandra"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// onNodes measures on one node and on three, which sync each write.
func onNodes(b *testing.B, f func(b *testing.B, nodes []*realserver.Cassandra)) {
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			f(b, realserver.StartCassandraCluster(b, n, realserver.DurableCassandra()...))
		})
	}
}

func BenchmarkPut(b *testing.B) {
	onNodes(b, func(b *testing.B, nodes []*realserver.Cassandra) {
		servertest.BenchPut(b, func(b *testing.B) store.Store { return open(b, fresh(b, nodes...)) })
	})
}

func BenchmarkFinish(b *testing.B) {
	onNodes(b, func(b *testing.B, nodes []*realserver.Cassandra) {
		servertest.BenchFinish(b, open(b, fresh(b, nodes...)))
	})
}

func BenchmarkTick(b *testing.B) {
	onNodes(b, func(b *testing.B, nodes []*realserver.Cassandra) {
		servertest.BenchTick(b, open(b, fresh(b, nodes...)))
	})
}

// BenchmarkBare is what the driver alone does with values of the size of a job: conditional batches of some
// rows that share a partition key, one for each goroutine.
func BenchmarkBare(b *testing.B) {
	onNodes(b, func(b *testing.B, nodes []*realserver.Cassandra) {
		c := gocql.NewCluster(realserver.CassandraAddresses(nodes)...)
		c.Port, c.Consistency = nodes[0].Port, gocql.Quorum
		c.Timeout = 10 * time.Second
		s, err := c.CreateSession()
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		for _, cql := range []string{
			fmt.Sprintf(`CREATE KEYSPACE bare WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}`, len(nodes)),
			`CREATE TABLE bare.rows (p int, n bigint, item int, last bigint static, value blob, PRIMARY KEY (p, n, item))`,
		} {
			if err := s.Query(cql).Exec(); err != nil {
				b.Fatal(err)
			}
		}
		next := 0
		for _, size := range []int{1, 8, 64} {
			b.Run(fmt.Sprint("rows=", size), func(b *testing.B) {
				servertest.Rate(b, func() { bare(b, s, size, next) })
				next += goroutines
			})
		}
	})
}

const goroutines = 64

// bare writes rows into partitions from one on.
func bare(b *testing.B, s *gocql.Session, size, from int) {
	b.Helper()
	value := bytes.Repeat([]byte("v"), 330)
	var wg sync.WaitGroup
	run := time.Now().UnixNano()
	for g := range goroutines {
		wg.Go(func() {
			p := int(run%1_000_000_000) + from + g
			for n := 0; n*size*goroutines < b.N; n++ {
				q := s.Batch(gocql.UnloggedBatch).SerialConsistency(gocql.Serial)
				if n == 0 {
					q.Query(`UPDATE bare.rows SET last = 1 WHERE p = ? IF last = null`, p)
				} else {
					q.Query(`UPDATE bare.rows SET last = ? WHERE p = ? IF last = ?`, n+1, p, n)
				}
				for i := range size {
					q.Query(`INSERT INTO bare.rows (p, n, item, value) VALUES (?, ?, ?, ?)`, p, n, i, value)
				}
				applied, rest, err := q.MapExecCAS(map[string]any{})
				if err == nil {
					err = rest.Close()
				}
				if err != nil || !applied {
					b.Errorf("applied %v, %v", applied, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkMemory(b *testing.B) {
	var o cassandra.Options
	servertest.BenchMemory(b, func(b *testing.B) store.Store {
		o = fresh(b, realserver.StartCassandra(b))
		return open(b, o)
	}, func(b *testing.B, s store.Store) store.Store {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		return open(b, o)
	})
}

// BenchmarkAfterAMillionRuns measures how long it takes to claim and read a partition through which a million
// one-shots have gone, over all partitions, and how much its log still has of them.
func BenchmarkAfterAMillionRuns(b *testing.B) {
	o := fresh(b, realserver.StartCassandra(b))
	o.Log = slog.New(slog.NewTextHandler(b.Output(), nil))
	s := open(b, o)
	shards := servertest.Shards(b, s)
	const runs = 1_000_000
	began := time.Now()
	servertest.Write(b, shards, runs, 64, func(batch *store.Batch, i int) {
		servertest.Put(batch, i)
		if i >= 64*64 { // those of the batch before
			servertest.Finish(batch, i-64*64)
			run := &batch.Runs[len(batch.Runs)-1]
			batch.Trims = append(batch.Trims, store.Trim{Key: run.Key, Keep: 0}) // no history
		}
	})
	b.Logf("%d one-shots in %v", runs, time.Since(began).Round(time.Second))
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	s = open(b, o)
	b.ResetTimer()
	for i := range b.N {
		sh, _ := servertest.Own(b, s, i%len(shards))
		if _, err := sh.List(b.Context(), store.ListQuery{Limit: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	rows, err := s.Rows(b.Context(), 3)
	b.Logf("rows of a partition's log, by segment: %v, %v", rows, err)
}

// BenchmarkLists measures lists of a store with much in it (-benchtime 500x).
func BenchmarkLists(b *testing.B) {
	storetest.BenchLists(b, open(b, fresh(b, realserver.StartCassandra(b))))
}

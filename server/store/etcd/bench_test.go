package etcd_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/etcd"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// onMembers measures on one member and on three.
func onMembers(b *testing.B, f func(b *testing.B, members []*realserver.Etcd)) {
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprint("members=", n), func(b *testing.B) {
			f(b, realserver.StartEtcdCluster(b, n, "quota-backend-bytes=8589934592"))
		})
	}
}

func BenchmarkPut(b *testing.B) {
	onMembers(b, func(b *testing.B, members []*realserver.Etcd) {
		servertest.BenchPut(b, func(b *testing.B) store.Store { return open(b, fresh(members...)) })
	})
}

func BenchmarkFinish(b *testing.B) {
	onMembers(b, func(b *testing.B, members []*realserver.Etcd) {
		servertest.BenchFinish(b, open(b, fresh(members...)))
	})
}

func BenchmarkTick(b *testing.B) {
	onMembers(b, func(b *testing.B, members []*realserver.Etcd) {
		servertest.BenchTick(b, open(b, fresh(members...)))
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
				servertest.Rate(b, func() { bare(b, c, value, shape.size, shape.at) })
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

func BenchmarkMemory(b *testing.B) {
	var o etcd.Options
	servertest.BenchMemory(b, func(b *testing.B) store.Store {
		o = fresh(realserver.StartEtcd(b, append(realserver.VolatileEtcd(), "quota-backend-bytes=8589934592")...))
		return open(b, o)
	}, func(b *testing.B, s store.Store) store.Store {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		return open(b, o)
	})
}

// BenchmarkLists measures lists of a store with much in it (-benchtime 500x).
func BenchmarkLists(b *testing.B) {
	storetest.BenchLists(b, open(b, fresh(realserver.StartEtcd(b, "quota-backend-bytes=8589934592"))))
}

package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store/redis"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// made counts the stores: each has a prefix of its own.
var made atomic.Int64

// fresh are options of a store that is not there yet.
func fresh(servers ...*realserver.Redis) redis.Options {
	o := redis.Options{Prefix: fmt.Sprint("test-", made.Add(1))}
	for _, s := range servers {
		o.Addresses = append(o.Addresses, s.Address())
	}
	return o
}

// open opens a store that the test closes.
func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	return servertest.Opened(t, o, redis.Open)
}

// suite are the suite's hooks on some servers.
func suite(t *testing.T, servers ...*realserver.Redis) storetest.Options {
	o := servertest.Suite(t, servertest.Kind[redis.Options]{Open: servertest.As(redis.Open),
		Fresh: func(t testing.TB) redis.Options { return fresh(servers...) }}, servers...)
	o.Seeds = 10
	return o
}

// TestSuite runs the suite on one server.
func TestSuite(t *testing.T) {
	storetest.RunOptions(t, suite(t, realserver.StartRedis(t)))
}

// TestSuiteCluster runs the suite on a Redis Cluster.
func TestSuiteCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it is long; go test without -short runs it")
	}
	o := suite(t, realserver.StartRedisCluster(t, 3)...)
	o.Crash = nil
	storetest.RunOptions(t, o)
}

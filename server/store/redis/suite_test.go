package redis_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
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
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// places remember where the suite's stores are, so that they can be opened again.
type places struct {
	mu  sync.Mutex
	all map[store.Store]redis.Options
}

func (p *places) open(t testing.TB, o redis.Options) store.Store {
	t.Helper()
	s := open(t, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[s] = o
	return s
}

// close closes a store and says where it was.
func (p *places) close(t testing.TB, s store.Store) redis.Options {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[s]
}

// suite are the suite's hooks on some servers, which are the test's. A crash kills all of them.
func suite(whole *testing.T, servers ...*realserver.Redis) storetest.Options {
	p := &places{all: map[store.Store]redis.Options{}}
	return storetest.Options{
		Open:   func(t testing.TB) store.Store { return p.open(t, fresh(servers...)) },
		Reopen: func(t testing.TB, s store.Store) store.Store { return p.open(t, p.close(t, s)) },
		Seeds:  10,
		Crash: func(t testing.TB, s store.Store) store.Store {
			for _, r := range servers {
				r.Crash(t)
			}
			o := p.close(t, s)
			for _, r := range servers {
				r.Up(whole) // it stays for the cases to come
			}
			return p.open(t, o)
		},
	}
}

// TestSuite runs the suite on one server.
func TestSuite(t *testing.T) {
	storetest.RunOptions(t, suite(t, realserver.StartRedis(t)))
}

// TestSuiteCluster runs the suite on a Redis Cluster.
func TestSuiteCluster(t *testing.T) {
	o := suite(t, realserver.StartRedisCluster(t, 3)...)
	o.Crash = nil
	storetest.RunOptions(t, o)
}

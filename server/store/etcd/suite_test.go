package etcd_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/etcd"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// made counts the stores: each has a prefix of its own.
var made atomic.Int64

// fresh are options of a store that is not there yet.
func fresh(members ...*realserver.Etcd) etcd.Options {
	return etcd.Options{Prefix: fmt.Sprint("test-", made.Add(1)), Addresses: realserver.Addresses(members)}
}

// open opens a store that the test closes.
func open(t testing.TB, o etcd.Options) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(t.Context(), o)
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
	all map[store.Store]etcd.Options
}

func (p *places) open(t testing.TB, o etcd.Options) store.Store {
	t.Helper()
	s := open(t, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[s] = o
	return s
}

// close closes a store and says where it was.
func (p *places) close(t testing.TB, s store.Store) etcd.Options {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[s]
}

// suite are the suite's hooks on some members, which are the test's. A crash kills all of them.
func suite(whole *testing.T, members ...*realserver.Etcd) storetest.Options {
	p := &places{all: map[store.Store]etcd.Options{}}
	return storetest.Options{
		Open:   func(t testing.TB) store.Store { return p.open(t, fresh(members...)) },
		Reopen: func(t testing.TB, s store.Store) store.Store { return p.open(t, p.close(t, s)) },
		Seeds:  seeds(),
		Crash: func(t testing.TB, s store.Store) store.Store {
			o := p.close(t, s)
			for _, m := range members {
				m.Crash(t)
			}
			for _, m := range members {
				m.Up(whole) // it stays for the cases to come
			}
			return p.open(t, o)
		},
	}
}

// TestSuite runs the suite on an etcd of one member.
func TestSuite(t *testing.T) {
	storetest.RunOptions(t, suite(t, realserver.StartEtcd(t, realserver.VolatileEtcd()...)))
}

// TestSuiteCluster runs the suite on three members.
func TestSuiteCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("one member is enough for -short")
	}
	o := suite(t, realserver.StartEtcdCluster(t, 3, realserver.VolatileEtcd()...)...)
	o.Crash = nil // the one before does that
	storetest.RunOptions(t, o)
}

// seeds is how many random histories are played.
func seeds() int {
	if testing.Short() {
		return 1
	}
	return 3
}

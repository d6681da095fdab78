package etcd_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
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
	return servertest.Opened(t, o, etcd.Open)
}

// suite are the suite's hooks on some servers.
func suite(t *testing.T, servers ...*realserver.Etcd) storetest.Options {
	o := servertest.Suite(t, servertest.Kind[etcd.Options]{Open: servertest.As(etcd.Open),
		Fresh: func(t testing.TB) etcd.Options { return fresh(servers...) }}, servers...)
	o.Seeds = seeds()
	return o
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

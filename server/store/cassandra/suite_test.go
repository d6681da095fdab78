package cassandra_test

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/testing/servertest"
	"github.com/carillonhq/carillon/server/store/cassandra"
	"github.com/carillonhq/carillon/server/store/storetest"
)

// long has the tests run that take minutes: the suite on three nodes, and those that start nodes again.
var long = flag.Bool("long", false, "run also what takes minutes")

// skipUnlessLong skips a test that is not to be in every run.
func skipUnlessLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("it takes minutes: with -long")
	}
}

// fresh are options of a store that is not there yet, and goes with the test. A keyspace takes long to be
// made, and much memory: one that a test has ended with is emptied, and used again.
func fresh(t testing.TB, nodes ...*realserver.Cassandra) cassandra.Options {
	t.Helper()
	addresses := realserver.CassandraAddresses(nodes)
	o := cassandra.Options{Keyspace: keyspaces.take(addresses[0]), Addresses: addresses}
	t.Cleanup(func() { keyspaces.giveBack(t, nodes[0], o.Keyspace) })
	return o
}

// keyspaces are those that tests have used.
var keyspaces = &pool{free: map[string][]string{}}

type pool struct {
	mu   sync.Mutex
	made int
	free map[string][]string // by the address of a node
}

func (p *pool) take(address string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free[address]); n > 0 {
		name := p.free[address][n-1]
		p.free[address] = p.free[address][:n-1]
		return name
	}
	p.made++
	return fmt.Sprint("test_", p.made)
}

// giveBack empties a keyspace. One that cannot be emptied is not used again.
func (p *pool) giveBack(t testing.TB, node *realserver.Cassandra, keyspace string) {
	t.Helper()
	s, err := node.Session()
	if err != nil {
		return
	}
	defer s.Close()
	for _, table := range []string{"store", "members", "owners", "changes"} {
		if err := s.Query("TRUNCATE " + keyspace + "." + table).Exec(); err != nil {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[node.Address()] = append(p.free[node.Address()], keyspace)
}

// open opens a store that the test closes.
func open(t testing.TB, o cassandra.Options) *cassandra.Store {
	t.Helper()
	return servertest.Opened(t, o, cassandra.Open)
}

// suite are the suite's hooks on some servers.
func suite(t *testing.T, servers ...*realserver.Cassandra) storetest.Options {
	o := servertest.Suite(t, servertest.Kind[cassandra.Options]{Open: servertest.As(cassandra.Open),
		Fresh: func(t testing.TB) cassandra.Options { return fresh(t, servers...) }}, servers...)
	o.Seeds, o.Rounds = 1, 100
	return o
}

// TestSuite runs the suite on a Cassandra of one node.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("Cassandra is slow")
	}
	o := suite(t, realserver.StartCassandra(t))
	o.Crash = nil // the next one does that
	storetest.RunOptions(t, o)
}

// TestSuiteCrash runs the cases of the suite that crash the store, on a Cassandra that has on its disk what
// it has acknowledged.
func TestSuiteCrash(t *testing.T) {
	skipUnlessLong(t)
	o := suite(t, realserver.StartCassandra(t, realserver.DurableCassandra()...))
	without := o
	without.Crash = nil
	for _, c := range storetest.Cases() {
		if c.Applies(o) && !c.Applies(without) {
			t.Run(c.Name, func(t *testing.T) { c.Check(t, o) })
		}
	}
}

// TestSuiteCluster runs the suite on three nodes.
func TestSuiteCluster(t *testing.T) {
	skipUnlessLong(t)
	o := suite(t, realserver.StartCassandraCluster(t, 3)...)
	o.Crash = nil
	storetest.RunOptions(t, o)
}

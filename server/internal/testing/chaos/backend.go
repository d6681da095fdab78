package chaos

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// PostgresBackend is an empty store on a PostgreSQL server that ends with the test. The server's processes
// lose nothing when they are killed, but it does not sync: settings such as "fsync=on" win.
func PostgresBackend(t testing.TB, settings ...string) Backend {
	t.Helper()
	server := realserver.StartPostgres(t, append(realserver.Volatile(), settings...)...)
	return Backend{URL: server.Database(t), Address: server.Address(), Down: func() { server.Crash(t) },
		Up: func() { server.Up(t) }}
}

// PostgresPairBackend is an empty store on a primary that acknowledges what its standby has too, so that a
// failover loses nothing.
func PostgresPairBackend(t testing.TB, settings ...string) Backend {
	t.Helper()
	pair := realserver.StartPostgresPair(t, slices.Concat(realserver.Volatile(),
		[]string{"synchronous_standby_names=walreceiver"}, settings)...)
	return Backend{URL: pair.Database(t), Address: pair.Address(), Failover: func() {
		old := pair.Primary
		pair.Failover(t)
		old.Discard(t)
		pair.Rejoin(t)
	}}
}

// RedisBackend is an empty store on a Redis server that syncs each write and ends with the test.
func RedisBackend(t testing.TB) Backend {
	t.Helper()
	server := realserver.StartRedis(t)
	return Backend{URL: "redis://" + server.Address(), Address: server.Address(),
		Down: func() { server.Crash(t) }, Up: func() { server.Up(t) },
		Lose: func() { server.Crash(t); server.Wipe(t) }}
}

// RedisClusterBackend is an empty store on a Redis Cluster of three servers, of which the last is the one to
// be ended. Nodes reach the servers directly: each tells them where the others are.
func RedisClusterBackend(t testing.TB) Backend {
	t.Helper()
	servers := realserver.StartRedisCluster(t, 3)
	last := servers[2]
	return Backend{URL: "redis://" + servers[0].Address() + "," + servers[1].Address(),
		Down: func() { last.Crash(t) }, Up: func() { last.Up(t) }}
}

// EtcdBackend is an empty store on an etcd of one member that syncs each write and ends with the test.
func EtcdBackend(t testing.TB) Backend {
	t.Helper()
	member := realserver.StartEtcd(t)
	return Backend{URL: "etcd://" + member.Address(), Address: member.Address(),
		Down: func() { member.Crash(t) }, Up: func() { member.Up(t) },
		Lose: func() { member.Crash(t); member.Wipe(t) }}
}

// CassandraBackend is an empty store on a Cassandra of one node that syncs each write and ends with the test.
// Nodes reach it directly: it tells them where it is.
func CassandraBackend(t testing.TB) Backend {
	t.Helper()
	node := realserver.StartCassandra(t, realserver.DurableCassandra()...)
	return Backend{URL: "cassandra://" + node.Address(),
		Down: func() { node.Crash(t) }, Up: func() { node.Up(t) },
		Lose: func() { node.Crash(t); node.Wipe(t) }}
}

// CassandraClusterBackend is an empty store on a Cassandra of three nodes, of which the last is the one to be
// ended. Nodes reach them directly.
func CassandraClusterBackend(t testing.TB) Backend {
	t.Helper()
	nodes := realserver.StartCassandraCluster(t, 3, realserver.DurableCassandra()...)
	last := nodes[2]
	return Backend{URL: "cassandra://" + strings.Join(realserver.CassandraAddresses(nodes), ","),
		Down: func() { last.Crash(t) }, Up: func() { last.Up(t) }}
}

// bucketStale is how old package object lets be what it says of owners.
const bucketStale = time.Second

// S3Backend is an empty store in a bucket of a server that ends with the test. Its leases are as short as
// those of other stores. The credentials are in the environment of this process from then on.
func S3Backend(t testing.TB) Backend {
	t.Helper()
	const bucket = "carillon"
	server := realserver.StartS3(t, bucket)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Setenv("AWS_ACCESS_KEY_ID", server.Key))        //nolint:usetesting // tests beside this one need the same
	must(os.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)) //nolint:usetesting // as above
	return Backend{URL: "s3://" + bucket + "?region=us-east-1&path-style=yes&commit-every=5ms&endpoint=" +
		server.Endpoint(),
		Address: server.Address(), Flags: []string{"--lease-ttl", "4s"}, Stale: bucketStale,
		Down: func() { server.Crash(t) }, Up: func() { server.Up(t) }}
}

// GCSBackend is the same in a bucket of fake-gcs-server.
func GCSBackend(t testing.TB) Backend {
	t.Helper()
	const bucket = "carillon"
	server := realserver.StartGCS(t, bucket)
	return Backend{URL: "gs://" + bucket + "?anonymous=yes&commit-every=5ms&endpoint=" + server.Endpoint(),
		Address: server.Address(), Flags: []string{"--lease-ttl", "4s"}, Stale: bucketStale,
		Down: func() { server.Crash(t) }, Up: func() { server.Up(t) }}
}

// AzureBackend is the same in a container of Azurite. That keeps all in memory, so it is not ended.
func AzureBackend(t testing.TB) Backend {
	t.Helper()
	const name = "carillon"
	server := realserver.StartAzure(t)
	key, err := container.NewSharedKeyCredential(server.Account, server.Key)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	c, err := container.NewClientWithSharedKeyCredential(server.Endpoint()+"/"+name, key, nil)
	must(err)
	_, err = c.Create(t.Context(), nil)
	must(err)
	must(os.Setenv("AZURE_STORAGE_KEY", server.Key)) //nolint:usetesting // as of S3Backend
	return Backend{URL: "azblob://" + name + "?account=" + server.Account + "&commit-every=5ms&endpoint=" +
		server.Endpoint(),
		Address: server.Address(), Flags: []string{"--lease-ttl", "4s"}, Stale: bucketStale}
}

// EtcdClusterBackend is an empty store on an etcd of three members, of which the last is the one to be ended.
// Nodes reach the members directly.
func EtcdClusterBackend(t testing.TB) Backend {
	t.Helper()
	members := realserver.StartEtcdCluster(t, 3)
	last := members[2]
	return Backend{URL: "etcd://" + strings.Join(realserver.Addresses(members), ","),
		Down: func() { last.Crash(t) }, Up: func() { last.Up(t) }}
}

// EmbeddedEtcdBackend is an empty store on an etcd whose members are in the processes of the first three
// nodes.
func EmbeddedEtcdBackend(t testing.TB) Backend {
	t.Helper()
	local := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	var peers, addresses, listens []string
	var doors [][]Door
	for i := range 3 {
		at, to := realserver.PortPair(t), realserver.PortPair(t) // of nodes, and of members one above
		peers = append(peers, nodeName(i)+"="+local(at+1))
		addresses = append(addresses, local(at))
		listens = append(listens, local(to+1))
		doors = append(doors, []Door{{At: local(at), To: local(to)}, {At: local(at + 1), To: local(to + 1)}})
	}
	folder := t.TempDir()
	clients := "etcd://" + strings.Join(addresses, ",")
	return Backend{URL: clients, Of: func(node int) (string, []Door) {
		if node >= len(peers) {
			return clients, nil
		}
		return fmt.Sprintf("etcd-embed:%s?member=%s&listen=%s&peers=%s", filepath.Join(folder, nodeName(node)),
			nodeName(node), listens[node], url.QueryEscape(strings.Join(peers, ","))), doors[node]
	}}
}

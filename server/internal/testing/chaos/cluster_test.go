package chaos_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/chaos"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
)

var (
	nodes = flag.Int("nodes", 3, "nodes of TestCluster…")
	only  = flag.String("only", "", "kinds of faults of TestKill…, TestMoves and TestCluster…, separated by commas; default all")
)

// clusterCycles is how often something goes wrong with a cluster in a short campaign.
const clusterCycles = 2

// clusterSeed is what a campaign draws that is given no seed: the same each time, so that a change is not
// blamed for what another draw finds. `make chaos-cluster` draws again.
const clusterSeed = 7

// TestClusterPostgres works over several nodes on PostgreSQL; see the package's comment.
func TestClusterPostgres(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.PostgresBackend(t))
}

// TestClusterPostgresFailover is the same on a pair of PostgreSQL servers that sync each write, whose primary
// is ended by force while its standby takes its place.
func TestClusterPostgresFailover(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.PostgresPairBackend(t, "fsync=on"))
}

// TestClusterRedis is the same on Redis, which syncs each write.
func TestClusterRedis(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.RedisBackend(t))
}

// TestClusterRedisCluster is the same on a Redis Cluster, which nodes reach directly: it tells them where it
// is.
func TestClusterRedisCluster(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.RedisClusterBackend(t))
}

// TestClusterEtcd is the same on an etcd of one member, which syncs each write; only with -cycles: what etcd may
// do is in TestClusterEmbeddedEtcd as well.
func TestClusterEtcd(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: TestClusterEmbeddedEtcd is on etcd as well")
	}
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.EtcdBackend(t))
}

// TestClusterEtcdCluster is the same on an etcd of three members, which nodes reach directly; only with
// -cycles, since TestClusterEmbeddedEtcd has as many.
func TestClusterEtcdCluster(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: TestClusterEmbeddedEtcd has three members as well")
	}
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.EtcdClusterBackend(t))
}

// TestClusterCassandra is the same on a Cassandra of one node, which syncs each write; only with -cycles, since
// Cassandra takes long to start.
func TestClusterCassandra(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: Cassandra takes long to start")
	}
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.CassandraBackend(t))
}

// TestClusterCassandraCluster is the same on a Cassandra of three nodes; only with -cycles.
func TestClusterCassandraCluster(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: Cassandra takes long to start")
	}
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.CassandraClusterBackend(t))
}

// TestClusterS3 is the same on a bucket of versitygw; only with -cycles: the tests of package object play more
// histories in less time.
func TestClusterS3(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: package object plays histories")
	}
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.S3Backend(t))
}

// TestClusterGCS is the same on a bucket of fake-gcs-server; only with -cycles.
func TestClusterGCS(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: package object plays histories")
	}
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.GCSBackend(t))
}

// TestClusterAzure is the same in a container of Azurite, which keeps all in memory and is not killed; only with
// -cycles.
func TestClusterAzure(t *testing.T) {
	t.Parallel()
	if *cycles == 0 {
		t.Skip("only with -cycles: package object plays histories")
	}
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.AzureBackend(t))
}

// TestClusterEmbeddedEtcd is the same on an etcd in the nodes themselves: who kills one kills a member.
func TestClusterEmbeddedEtcd(t *testing.T) {
	t.Parallel()
	binary := carillonBinary(t)
	runCampaign(t, binary, chaos.EmbeddedEtcdBackend(t), "kill one", "kill most", "kill all", "freeze", "leave and come",
		"cut off from the store", "slow store", "cut off from peers and the store")
}

// runCampaign does a campaign against a cluster and has it judged. What goes wrong is of the kinds that are told by
// -only; without it, of those that are given here, or of all.
func runCampaign(t *testing.T, binary string, b chaos.Backend, kinds ...string) {
	t.Helper()
	o := chaos.ClusterOptions{
		ClusterConfig: chaos.ClusterConfig{Binary: binary, Store: b, Logs: logs(t)},
		Nodes:         *nodes, Cycles: often(clusterCycles), Seed: *seed, Worker: workerCommand, Log: t.Logf, Only: kinds,
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	if o.Seed == 0 {
		o.Seed = clusterSeed
	}
	t.Logf("seed %d; again: go test ./server/internal/testing/chaos -run '^%s$' -v -seed %d -cycles %d", o.Seed,
		t.Name(), o.Seed, o.Cycles)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(o.Cycles)*time.Minute+3*time.Minute)
	defer cancel()
	h, err := chaos.RunCluster(ctx, o)
	spec := checker.Spec{MinStarts: 20 * o.Cycles}
	if o.Cycles >= enoughCycles && len(o.Only) == 0 {
		spec.MinStaleRefused, spec.MinEpochs = 1, o.Cycles
	}
	judge(t, h, err, spec)
}

// logs is a folder for the logs of nodes, which stays if the test fails, or with -keep.
func logs(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "carillon-logs-") //nolint:usetesting // it may outlive the test
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() || *always {
			t.Logf("the nodes' logs are in %s", folder)
			return
		}
		must(t, os.RemoveAll(folder))
	})
	return folder
}

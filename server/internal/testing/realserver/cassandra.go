package realserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// Cassandra is a node of an Apache Cassandra cluster, which may have no others. Its program is Java and the
// jars that tools/cassandra/pom.xml names, in the folder CARILLON_CASSANDRA, or carillon/cassandra of the
// user's cache.
type Cassandra struct {
	Host   string
	Port   int    // for clients, the same on all nodes of a cluster
	Folder string // of its data and its settings

	nodes int // of its cluster
	daemon
}

// cassandraAccess is what Cassandra must reach of Java, as conf/jvm17-server.options of its distribution
// says.
var cassandraAccess = strings.Fields(`
	--add-exports=java.base/jdk.internal.misc --add-exports=java.base/jdk.internal.ref
	--add-exports=java.base/java.lang.ref --add-exports=java.sql/java.sql
	--add-exports=java.rmi/sun.rmi.registry --add-exports=java.rmi/sun.rmi.server
	--add-exports=java.management.rmi/com.sun.jmx.remote.internal.rmi
	--add-exports=jdk.unsupported/sun.misc --add-exports=jdk.compiler/com.sun.tools.javac.tree
	--add-opens=java.base/java.io --add-opens=java.base/java.lang --add-opens=java.base/java.lang.module
	--add-opens=java.base/java.lang.reflect --add-opens=java.base/java.nio --add-opens=java.base/java.util
	--add-opens=java.base/java.util.concurrent --add-opens=java.base/java.util.concurrent.atomic
	--add-opens=java.base/jdk.internal.loader --add-opens=java.base/jdk.internal.math
	--add-opens=java.base/jdk.internal.module --add-opens=java.base/jdk.internal.ref
	--add-opens=java.base/jdk.internal.reflect --add-opens=java.base/jdk.internal.util.jar
	--add-opens=java.base/sun.nio.ch --add-opens=jdk.management/com.sun.management.internal`)

// StartCassandra starts a Cassandra of one node that ends with the test. Settings are more lines of its
// cassandra.yaml.
func StartCassandra(t testing.TB, settings ...string) *Cassandra {
	t.Helper()
	return StartCassandraCluster(t, 1, settings...)[0]
}

// DurableCassandra are settings of a Cassandra that has on its disk what it has acknowledged. Otherwise it
// writes to its disk within ten seconds, as Cassandra's default is: that survives a kill, and no crash of the
// machine.
func DurableCassandra() []string { return []string{"commitlog_sync: batch"} }

// StartCassandraCluster starts a Cassandra cluster of so many nodes, which ends with the test. Each has an
// address of its own, 127.0.0.1, 127.0.0.2, …: clients tell nodes apart by their addresses.
func StartCassandraCluster(t testing.TB, nodes int, settings ...string) []*Cassandra {
	t.Helper()
	java, jars := Binary(t, "java"), jars(t, "Cassandra", "cassandra-all-*.jar")
	all := make([]*Cassandra, nodes)
	port, between := Port(t), Port(t)
	seeds := make([]string, nodes)
	for i := range all {
		all[i] = &Cassandra{Host: fmt.Sprint("127.0.0.", i+1), Port: port, Folder: Folder(t, ""), nodes: nodes}
		seeds[i] = fmt.Sprint(all[i].Host, ":", between) // who is one waits for no other to start
	}
	for i, c := range all {
		// each has an equal part of the ring, so that none waits for the others to start
		token := strconv.FormatInt(-1<<63+int64(uint64(i)*(1<<64-1)/uint64(nodes)), 10)
		c.configure(t, between, strings.Join(seeds, ","), token, settings)
		c.program = Program{Path: java, Folder: c.Folder, Args: append(append([]string{}, cassandraAccessFor()...),
			"-Djdk.attach.allowAttachSelf=true", "-javaagent:"+filepath.Join(jars, "jamm-0.4.0.jar"),
			"-Xms256m", "-Xmx768m", "-XX:+UseSerialGC",
			"-Dcassandra.config=file://"+filepath.Join(c.Folder, "cassandra.yaml"),
			"-Dlogback.configurationFile="+filepath.Join(c.Folder, "logback.xml"), "-Dcassandra-foreground=yes",
			"-Dcassandra.storagedir="+c.Folder, "-Dcassandra.logdir="+c.Folder, "-Dcassandra.ring_delay_ms=1",
			"-Dcassandra.skip_wait_for_gossip_to_settle=0", "-cp", filepath.Join(jars, "*"),
			"org.apache.cassandra.service.CassandraDaemon")}
		c.process = Start(t, c.program)
	}
	for _, c := range all {
		c.ready(t)
	}
	return all
}

func cassandraAccessFor() []string {
	out := make([]string, len(cassandraAccess))
	for i, a := range cassandraAccess {
		out[i] = a + "=ALL-UNNAMED"
	}
	return out
}

// configure writes the settings of a node. Cassandra refuses those that it does not know.
func (c *Cassandra) configure(t testing.TB, between int, seeds, token string, settings []string) {
	t.Helper()
	data := func(name string) string { return filepath.Join(c.Folder, "data", name) }
	lines := append([]string{
		"cluster_name: carillon", "num_tokens: 1", "initial_token: '" + token + "'", "auto_bootstrap: false",
		"partitioner: org.apache.cassandra.dht.Murmur3Partitioner", "endpoint_snitch: SimpleSnitch",
		"listen_address: " + c.Host, "rpc_address: " + c.Host, fmt.Sprint("storage_port: ", between),
		fmt.Sprint("native_transport_port: ", c.Port), "data_file_directories: ['" + data("data") + "']",
		"commitlog_directory: " + data("commitlog"), "saved_caches_directory: " + data("caches"),
		"hints_directory: " + data("hints"), "cdc_raw_directory: " + data("cdc"),
		"seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: '" +
			seeds + "'}]}]",
		"commitlog_disk_access_mode: legacy", "auto_snapshot: false", "paxos_variant: v2",
		"memtable_heap_space: 64MiB", "memtable_offheap_space: 64MiB",
		"file_cache_size: 32MiB", "concurrent_reads: 8", "concurrent_writes: 16", "native_transport_max_threads: 16",
	}, settings...)
	const log = `<configuration><appender name="OUT" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>` +
		`%level %d{HH:mm:ss} %logger{0} %msg%n</pattern></encoder></appender><root level="WARN">` +
		`<appender-ref ref="OUT"/></root></configuration>`
	yaml := strings.Join(lines, "\n")
	if !strings.Contains(yaml, "commitlog_sync:") {
		yaml += "\ncommitlog_sync: periodic\ncommitlog_sync_period: 10s"
	}
	for name, text := range map[string]string{"cassandra.yaml": yaml + "\n", "logback.xml": log} {
		if err := os.WriteFile(filepath.Join(c.Folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Up starts the node again, after Crash or Down, and waits until it serves.
func (c *Cassandra) Up(t testing.TB) {
	t.Helper()
	c.process = Start(t, c.program)
	c.ready(t)
}

// ready waits until the node serves, and knows of as many others as have started.
func (c *Cassandra) ready(t testing.TB) {
	t.Helper()
	c.process.Ready(t, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Address())
		if err != nil {
			return err
		}
		if err := conn.Close(); err != nil || c.nodes == 1 {
			return err
		}
		s, err := c.Session()
		if err != nil {
			return err
		}
		defer s.Close()
		peers := s.Query(`SELECT host_id FROM system.peers_v2`).Iter().NumRows()
		if peers+1 < c.nodes {
			return fmt.Errorf("it knows %d of %d nodes", peers+1, c.nodes)
		}
		return nil
	})
}

// Session connects to this node alone.
func (c *Cassandra) Session() (*gocql.Session, error) {
	o := gocql.NewCluster(c.Address())
	o.Port, o.DisableInitialHostLookup, o.RegisteredTypes = c.Port, true, gocql.GlobalTypes.Copy()
	return o.CreateSession()
}

// Wipe takes away what a node that does not run has kept.
func (c *Cassandra) Wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(c.Folder, "data")); err != nil {
		t.Fatal(err)
	}
}

// Copy copies the data of a node that does not run, for [Cassandra.Restore].
func (c *Cassandra) Copy(t testing.TB) string {
	t.Helper()
	folder := Folder(t, "")
	if err := os.CopyFS(filepath.Join(folder, "data"), os.DirFS(filepath.Join(c.Folder, "data"))); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Restore puts what Copy has copied in the place of the data of a node that does not run.
func (c *Cassandra) Restore(t testing.TB, folder string) {
	t.Helper()
	c.Wipe(t)
	if err := os.CopyFS(filepath.Join(c.Folder, "data"), os.DirFS(filepath.Join(folder, "data"))); err != nil {
		t.Fatal(err)
	}
}

// Address is where the node listens for clients.
func (c *Cassandra) Address() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// CassandraAddresses are those of several nodes.
func CassandraAddresses(nodes []*Cassandra) []string {
	out := make([]string, len(nodes))
	for i, c := range nodes {
		out[i] = c.Address()
	}
	return out
}

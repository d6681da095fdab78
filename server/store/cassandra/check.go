package cassandra

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// checkReplicas refuses a keyspace that the data centre of the options has no replicas in, and says what
// too few replicas mean. by is how many replicas there are, by data centre, and the class of the strategy.
func (s *Store) checkReplicas(by map[string]string) error {
	class := by["class"]
	delete(by, "class")
	named := strings.HasSuffix(class, "NetworkTopologyStrategy")
	if dc := s.opt.Datacenter; dc != "" && (!named || by[dc] == "") {
		return fmt.Errorf("the keyspace %s has no replicas in the data centre %q of the URL: it has %v, of %s",
			s.opt.Keyspace, dc, by, class)
	}
	for dc, text := range by {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return fmt.Errorf("the keyspace %s has %q replicas in %s: transient replication is not supported; ALTER KEYSPACE to a whole number",
				s.opt.Keyspace, text, dc)
		case s.opt.Datacenter != "" && dc != s.opt.Datacenter:
		case n < defaultReplication:
			s.opt.Log.Warn("the keyspace has fewer than three replicas: while one node of Cassandra is down, partitions are unavailable; "+
				"add nodes, ALTER KEYSPACE to 3 replicas, then run nodetool repair",
				"keyspace", s.opt.Keyspace, "datacenter", dc, "replicas", n)
		}
	}
	return nil
}

// checkNodes warns of nodes that acknowledge what they may lose. One that does not say how it is set up, as
// ScyllaDB and who may not read system_views, is not complained of.
func (s *Store) checkNodes(ctx context.Context) {
	for _, h := range s.wire.session().GetHosts() {
		if !h.IsUp() || s.opt.Datacenter != "" && h.DataCenter() != s.opt.Datacenter {
			continue
		}
		var sync string
		err := s.wire.session().Query(`SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'`).
			Consistency(gocql.One).SetHostID(h.HostID()).ScanContext(ctx, &sync)
		switch {
		case err != nil:
			s.opt.Log.Debug("a node of Cassandra does not say when it writes to its disk", "node", h.ConnectAddressAndPort(),
				"error", err)
		case sync == "periodic":
			s.opt.Log.Warn("the store may lose what was acknowledged", "reason", "Cassandra at "+h.ConnectAddressAndPort()+
				" has commitlog_sync: periodic: a killed process loses up to 0.1 s of acknowledged writes, a crashed machine up to 10 s; "+
				"set commitlog_sync to batch or group in cassandra.yaml")
		}
	}
}

package cassandra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/mackey"
)

// levels are how many replicas a call waits for.
type levels struct {
	regular, serial gocql.Consistency
}

func levelsOf(datacenter string) levels {
	if datacenter != "" {
		return levels{gocql.LocalQuorum, gocql.LocalSerial}
	}
	return levels{gocql.Quorum, gocql.Serial}
}

// The tables. docs/stores.md tells operators what is in them.
var tables = []struct{ name, columns, comment string }{
	{"store", `id int PRIMARY KEY, format int, partitions int, secret blob, datacenter text, created timestamp`,
		"what the store was created with"},
	{"members", `cluster int, id text, address text, http text, sidecars text, capacity int, nonce bigint,
		settings blob, state blob, until timestamp, given double, PRIMARY KEY (cluster, id)`,
		"the nodes that live"},
	{"owners", `cluster int, partition int, node text, epoch bigint, nonce bigint, until timestamp, given double,
		first int, PRIMARY KEY (cluster, partition)`,
		"which node owns a partition, and the first segment of its log"},
	{"changes", `partition int, segment int, number bigint, item int,
		epoch bigint static, nonce bigint static, start bigint static, last bigint static, next int static,
		settings map<blob, blob> static,
		kind text, gone boolean, namespace text, name text, seq bigint, id text, status text, due timestamp,
		value blob, spec blob, key blob, before bigint, items int, by_epoch bigint, by_nonce bigint,
		PRIMARY KEY ((partition, segment), number, item)`,
		"the logs of the partitions: jobs, pending and finished runs as they are after each batch"},
}

// create makes the keyspace, the tables and the store if they are not there, and reads what the store was
// created with.
func (s *Store) create(ctx context.Context) error {
	if s.opt.Existing {
		if found, err := s.readStore(ctx); err != nil || len(found.secret) == 0 {
			return errors.Join(store.ErrNoStore, err)
		}
	}
	if err := s.createKeyspace(ctx); err != nil {
		return err
	}
	if err := s.createTables(ctx); err != nil {
		return err
	}
	secret := mackey.New(s.opt.MACKey)
	if _, err := s.wire.cas(ctx, statement{
		`INSERT INTO $store (id, format, partitions, secret, datacenter, created) VALUES (0, ?, ?, ?, ?, ?) IF NOT EXISTS`,
		[]any{store.Format(), s.opt.Partitions, secret, s.opt.Datacenter, s.opt.Now()}}); err != nil {
		return err
	}
	found, err := s.readStore(ctx)
	if err != nil {
		return err
	}
	if len(found.secret) == 0 {
		return errors.New("the store has gone while it was opened")
	}
	if err := store.CheckFormat(found.format); err != nil && !store.Extends(found.format) {
		return err
	}
	if err := store.CheckAsIs(found.format, s.opt.AsIs); err != nil {
		return err
	}
	if found.partitions < 1 || found.partitions > store.MaxPartitions || len(found.secret) != len(secret) {
		return fmt.Errorf("%w: the table store", store.ErrDamaged)
	}
	if found.datacenter != s.opt.Datacenter {
		return fmt.Errorf("this store's nodes write with datacenter=%s, and this one is to write with datacenter=%s: their writes "+
			"would not see each other; give all of them the same", cmp.Or(found.datacenter, "(none)"),
			cmp.Or(s.opt.Datacenter, "(none)"))
	}
	s.checkNodes(ctx)
	s.meta = store.Meta{Format: found.format, Partitions: found.partitions, MACKey: found.secret}
	return s.begin(ctx)
}

// begin has the terms of partitions that were never claimed begin above an epoch, if there is one.
func (s *Store) begin(ctx context.Context) error {
	if s.opt.Epoch == 0 {
		return nil
	}
	for p := range s.meta.ProvingGround() + 1 {
		if _, err := s.wire.cas(ctx, statement{
			`INSERT INTO $owners (cluster, partition, node, epoch, nonce) VALUES (0, ?, '', ?, 0) IF NOT EXISTS`,
			[]any{p, int64(s.opt.Epoch)}}); err != nil {
			return err
		}
	}
	return nil
}

// storeRow is what the store was created with.
type storeRow struct {
	format, partitions int
	secret             []byte
	datacenter         string
}

func (s *Store) readStore(ctx context.Context) (row storeRow, err error) {
	err = s.wire.each(ctx, s.wire.levels.regular,
		statement{text: `SELECT format, partitions, secret, datacenter FROM $store WHERE id = 0`}, nil,
		func(scan func(...any) error) error {
			return scan(&row.format, &row.partitions, &row.secret, &row.datacenter)
		})
	return row, err
}

// replicasOf returns how many replicas the keyspace has, by data centre; nil if there is no such keyspace.
func (s *Store) replicasOf(ctx context.Context) (by map[string]string, err error) {
	err = s.wire.each(ctx, gocql.One,
		statement{`SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?`, []any{s.opt.Keyspace}},
		nil, func(scan func(...any) error) error { return scan(&by) })
	return by, err
}

// createKeyspace makes the keyspace if it is not there, and checks how many replicas it has.
func (s *Store) createKeyspace(ctx context.Context) error {
	by, err := s.replicasOf(ctx)
	if err != nil {
		return err
	}
	if by == nil {
		if by, err = s.makeKeyspace(ctx); err != nil {
			return err
		}
	}
	return s.checkReplicas(by)
}

func (s *Store) makeKeyspace(ctx context.Context) (map[string]string, error) {
	nodes := map[string]int{}
	for _, h := range s.wire.session().GetHosts() {
		nodes[h.DataCenter()]++
	}
	var each strings.Builder
	for _, dc := range slices.Sorted(maps.Keys(nodes)) {
		n := cmp.Or(s.opt.Replication, min(defaultReplication, nodes[dc]))
		fmt.Fprintf(&each, ", '%s': %d", strings.ReplaceAll(dc, "'", "''"), n)
	}
	err := s.define(ctx, fmt.Sprintf(`CREATE KEYSPACE IF NOT EXISTS %s WITH replication = {'class': 'NetworkTopologyStrategy'%s}`,
		s.opt.Keyspace, each.String()))
	if err != nil {
		return nil, fmt.Errorf("create the keyspace %s: %w", s.opt.Keyspace, err)
	}
	return s.replicasOf(ctx)
}

// createTables makes the tables that are not there.
func (s *Store) createTables(ctx context.Context) error {
	there := map[string]bool{}
	err := s.wire.each(ctx, gocql.One,
		statement{`SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?`, []any{s.opt.Keyspace}}, nil,
		func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			there[name] = true
			return err
		})
	if err != nil {
		return err
	}
	for _, t := range tables {
		if there[t.name] {
			continue
		}
		err := s.define(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s.%s (%s) WITH comment = '%s'`, s.opt.Keyspace, t.name,
			t.columns, t.comment))
		if err != nil {
			return fmt.Errorf("create the table %s.%s: %w", s.opt.Keyspace, t.name, err)
		}
	}
	return nil
}

// defineTimeout is how long a change of the schema may take.
const defineTimeout = 30 * time.Second

// define changes the schema. All nodes that start at once ask the same node of Cassandra to do it: two that
// create a table at once can create it twice.
func (s *Store) define(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, defineTimeout)
	defer cancel()
	first := ""
	for _, h := range s.wire.session().GetHosts() {
		if h.IsUp() && (first == "" || h.HostID() < first) {
			first = h.HostID()
		}
	}
	if first == "" {
		return gocql.ErrNoConnections
	}
	err := gocql.ErrTimeoutNoResponse
	for errors.Is(err, gocql.ErrTimeoutNoResponse) && ctx.Err() == nil {
		// The driver waits for no answer longer than for one of a batch. A change that is made already is none.
		err = s.wire.session().Query(text).SetHostID(first).ExecContext(ctx)
	}
	if err != nil {
		return err
	}
	return s.wire.session().AwaitSchemaAgreement(ctx)
}

package engines

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// engine is what can hold the store of nodes.
type engine struct {
	alone bool // of one node only
	flags []string
	load  load
	start func(t *testing.T) server
}

// server is an engine that runs.
type server struct {
	// stores are the URLs of a new store for so many nodes.
	stores func(t *testing.T, nodes int) []string
	// bare has the engine's own client make commits; nil: the engine is in the nodes, and has none.
	bare func(t *testing.T, c commits) error
}

// order is that of the table.
var order = []string{"pebble", "postgres", "redis", "etcd", "etcd-embed", "cassandra", "s3"}

var (
	usual = load{20_000, 100_000, 20_000, 500, 10 * time.Second}
	slow  = load{4_000, 40_000, 10_000, 500, 10 * time.Second}
)

var engines = map[string]engine{
	"pebble":     {alone: true, load: usual, start: startPebble},
	"postgres":   {load: usual, start: startPostgres},
	"redis":      {load: usual, start: startRedis},
	"etcd":       {load: usual, start: startEtcd},
	"etcd-embed": {load: usual, start: startEmbeddedEtcd},
	"cassandra":  {load: slow, start: startCassandra},
	"s3":         {load: slow, flags: []string{"--lease-ttl", "10s"}, start: startS3},
}

// same are the stores of nodes that share one URL.
func same(store string) func(*testing.T, int) []string {
	return func(_ *testing.T, nodes int) (all []string) {
		for range nodes {
			all = append(all, store)
		}
		return all
	}
}

func startPebble(t *testing.T) server {
	t.Helper()
	return server{stores: same("pebble:" + realserver.Folder(t, "")), bare: barePebble}
}

func startPostgres(t *testing.T) server {
	t.Helper()
	s := realserver.StartPostgres(t)
	return server{stores: same(s.Database(t)), bare: func(t *testing.T, c commits) error {
		t.Helper()
		return barePostgres(t, s.Database(t), c)
	}}
}

func startRedis(t *testing.T) server {
	t.Helper()
	s := realserver.StartRedis(t)
	return server{stores: same("redis://" + s.Address()), bare: func(t *testing.T, c commits) error {
		t.Helper()
		err := bareRedis(t, s.Address(), c)
		s.Do(t, "FLUSHALL")
		return err
	}}
}

func startEtcd(t *testing.T) server {
	t.Helper()
	s := realserver.StartEtcd(t)
	return server{stores: same("etcd://" + s.Address()), bare: func(t *testing.T, c commits) error {
		t.Helper()
		return bareEtcd(t, s.Address(), c)
	}}
}

// startEmbeddedEtcd has members in the nodes: one, or three. A client of such an etcd is what startEtcd measures.
func startEmbeddedEtcd(*testing.T) server {
	return server{stores: func(t *testing.T, nodes int) (all []string) {
		t.Helper()
		folder := realserver.Folder(t, "")
		var peers []string
		for i := range nodes {
			peers = append(peers, fmt.Sprintf("%s=127.0.0.1:%d", nodeName(i), realserver.PortPair(t)+1))
		}
		for i := range nodes {
			all = append(all, fmt.Sprintf("etcd-embed:%s?member=%s&peers=%s", filepath.Join(folder, nodeName(i)),
				nodeName(i), url.QueryEscape(strings.Join(peers, ","))))
		}
		return all
	}}
}

func startCassandra(t *testing.T) server {
	t.Helper()
	s := realserver.StartCassandra(t, realserver.DurableCassandra()...)
	return server{stores: same("cassandra://" + s.Address()), bare: func(t *testing.T, c commits) error {
		t.Helper()
		return bareCassandra(t, s, c)
	}}
}

func startS3(t *testing.T) server {
	t.Helper()
	s := realserver.StartS3(t, "carillon")
	t.Setenv("AWS_ACCESS_KEY_ID", s.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.Secret)
	return server{stores: same("s3://carillon?region=us-east-1&path-style=yes&endpoint=" + s.Endpoint()),
		bare: func(t *testing.T, c commits) error {
			t.Helper()
			return bareS3(t, s, c)
		}}
}

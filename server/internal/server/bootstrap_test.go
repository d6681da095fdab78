package server_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/internal/transfer"
	"github.com/carillonhq/carillon/server/store"
)

// TestTooManyKeysOfAStore: also without a node there are not more than so many.
func TestTooManyKeysOfAStore(t *testing.T) {
	url := "pebble:" + t.TempDir()
	n := carillon.NewKey{Grants: grants(carillon.RoleViewer, "a")}
	firstKey(t, url, n)
	s, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	frozen, work, err := transfer.Freeze(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	shard, err := s.Shard(partition.Home, frozen.Term(partition.Home))
	if err != nil {
		t.Fatal(err)
	}
	b := &store.Batch{}
	for range carillon.MaxKeys - 2 {
		k, _ := access.New(n, "test", time.Now())
		b.MetaRecords = append(b.MetaRecords, partition.KeyRecord(&k))
	}
	if err := errors.Join(shard.Apply(work, b), frozen.Thaw(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	firstKey(t, url, n)
	if _, err := server.CreateKey(t.Context(), url, n); !errors.Is(err, carillon.ResourceExhausted) {
		t.Error(err)
	}
}

// TestOneFirstKey: three nodes start at the same time on a store without keys, each with another file. One of
// the keys is made, an admin of everything that all nodes know; the others open nothing.
func TestOneFirstKey(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	url := "redis://" + realserver.StartRedis(t).Address()
	keys, nodes := make([]string, 3), make([]*server.Server, 3)
	var starting sync.WaitGroup
	for i := range nodes {
		_, keys[i], _ = access.Mint()
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(keys[i]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		starting.Go(func() {
			nodes[i] = serve(t, server.Config{Store: url, Name: fmt.Sprint("n", i),
				Extensions: server.Extensions{Auth: server.AuthKeys, BootstrapKeyFile: file,
					Audit: server.Audit{To: server.AuditStore}}})
		})
	}
	starting.Wait()
	opens := func(node, key int) (carillon.KeyPage, bool) {
		c, err := client.Dial(nodes[node].GRPCAddr(), client.WithToken(keys[key]), client.WithOneAddress())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		page, err := c.ListKeys(t.Context(), carillon.KeyQuery{})
		return page, err == nil
	}
	right := -1
	eventually(t, "one key opens all nodes", func() bool {
		for key := range keys {
			n := 0
			for node := range nodes {
				if _, ok := opens(node, key); ok {
					n++
				}
			}
			if n == len(nodes) {
				right = key
			}
		}
		return right >= 0
	})
	for node := range nodes {
		for key := range keys {
			page, ok := opens(node, key)
			if ok != (key == right) || ok && (len(page.Keys) != 1 || page.Keys[0].Creator != "bootstrap key file") {
				t.Errorf("node %d, key %d: %v, %+v", node, key, ok, page.Keys)
			}
		}
	}
	a := &audited{t: t, read: dialWith(t, nodes[0], keys[right])}
	made := a.entries(carillon.AuditQuery{Action: "CreateKey"})
	if len(made) != 1 || made[0].Principal != "bootstrap key file" || made[0].Outcome != carillon.AuditOK ||
		!strings.Contains(keys[right], "_"+made[0].Resource+"_") {
		t.Errorf("what is recorded of it: %+v", made)
	}
}

// TestAFirstKeyInTheLog: where calls are logged only, it is, too.
func TestAFirstKeyInTheLog(t *testing.T) {
	id, key, _ := access.Mint()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	serve(t, server.Config{Store: "memory:", Partitions: 2, Log: slog.New(slog.NewTextHandler(log, nil)),
		Extensions: server.Extensions{Auth: server.AuthKeys, BootstrapKeyFile: file}})
	eventually(t, "the log has an entry", func() bool {
		text := log.String()
		return strings.Contains(text, "audit.action=CreateKey") && strings.Contains(text, "audit.resource="+id)
	})
}

// TestAFileThatIsIgnored: on a store with keys a node starts whatever the file of a first key is; on one
// without it does not.
func TestAFileThatIsIgnored(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gone")
	url := "pebble:" + t.TempDir()
	key := firstKey(t, url, carillon.NewKey{Grants: everyRole("*")})
	log := &syncBuffer{}
	node := serve(t, server.Config{Store: url, Partitions: 2, Log: slog.New(slog.NewTextHandler(log, nil)),
		Extensions: server.Extensions{Auth: server.AuthKeys, BootstrapKeyFile: missing}})
	if _, err := dialWith(t, node, key.Secret).ListKeys(t.Context(), carillon.KeyQuery{}); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "is ignored") || !strings.Contains(text, missing) {
		t.Error("the log does not say that the file is ignored")
	}
	_, err := server.Start(t.Context(), server.Config{Store: "memory:",
		Extensions: server.Extensions{Auth: server.AuthKeys, BootstrapKeyFile: missing}})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "bootstrap_key_file") {
		t.Errorf("without keys: %v", err)
	}
}

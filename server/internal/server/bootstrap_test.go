package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
				Extensions: server.Extensions{Auth: server.AuthKeys, BootstrapKeyFile: file}})
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
}

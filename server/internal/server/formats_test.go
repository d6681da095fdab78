package server_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
)

// build is the command of another version: the linker sets what makes it one.
func build(t *testing.T, name, set string) (path string) {
	t.Helper()
	if testing.Short() {
		t.Skip("another build is not for -short")
	}
	path = filepath.Join(t.TempDir(), name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags",
		"-s -w -X github.com/carillonhq/carillon/server/"+set, "-o", path,
		"github.com/carillonhq/carillon/server/cmd/carillon")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// refusal is what a build says that is expected not to start.
func refusal(t *testing.T, program, store, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := serving(ctx, program, store, name).CombinedOutput()
	if ctx.Err() != nil || err == nil {
		t.Errorf("it starts: %s", out)
	}
	return string(out)
}

func serving(ctx context.Context, program, store, name string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, "serve", "--store", store, "--node-name", name, "--grpc",
		"127.0.0.1:0", "--http", "none",
		"--drain-grace", "1s")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	return cmd
}

// created has a build make a store, and ends it.
func created(t *testing.T, program, store string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := serving(ctx, program, store, "first")
	var out lines
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other build is up", func() bool { return out.containing("node is up") > 0 })
	cancel()
	_ = cmd.Wait() // it was told to end
}

// TestBuildsOfDifferentFormats: of two builds one has made the store. The other is refused, whichever is the
// newer, and says which formats there are.
func TestBuildsOfDifferentFormats(t *testing.T) {
	later := build(t, "later", "store.format=7")
	stores := map[string]func() string{
		"Pebble":     func() string { return "pebble:" + filepath.Join(t.TempDir(), "store") },
		"PostgreSQL": func() string { return realserver.StartPostgres(t, realserver.Volatile()...).Database(t) },
		"Redis":      func() string { return "redis://" + realserver.StartRedis(t).Address() },
	}
	for name, another := range stores {
		t.Run(name, func(t *testing.T) {
			ours, theirs := another(), another()
			_, end := serveUntil(t, server.Config{Store: ours, Name: "a"})
			if shared := name != "Pebble"; !shared {
				end()
			}
			if said := refusal(t, later, ours, "b"); !strings.Contains(said, "older version") ||
				!strings.Contains(said, "format is 6") ||
				!strings.Contains(said, "knows 7") {
				t.Errorf("the later build: %s", said)
			}
			end()
			created(t, later, theirs)
			_, err := server.New(server.Config{Store: theirs, Name: "a", GRPC: "127.0.0.1:0", HTTP: server.None})
			if err == nil || !strings.Contains(err.Error(), "newer version") ||
				!strings.Contains(err.Error(), "format is 6") {
				t.Errorf("this build: %v", err)
			}
		})
	}
}

// TestAStoreOfTheFormatBefore is taken over when no node of the earlier build lives, which is refused from then
// on. Stores in which rows are brought up to date besides have tests of their own.
func TestAStoreOfTheFormatBefore(t *testing.T) {
	earlier := build(t, "earlier", "store.format=5")
	for name, url := range map[string]func() string{
		"etcd": func() string { return "etcd://" + realserver.StartEtcd(t).Address() },
		"bucket": func() string {
			return "gs://formats/x?anonymous=yes&commit-every=1ms&endpoint=" + realserver.StartGCS(t, "formats").Endpoint()
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := url()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			cmd := serving(ctx, earlier, url, "first")
			var out lines
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the earlier build is up", func() bool { return out.containing("node is up") > 0 })
			_, err := server.New(server.Config{Store: url, Name: "a", GRPC: "127.0.0.1:0", HTTP: server.None})
			if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "first") {
				t.Errorf("while a node of the earlier build lives: %v", err)
			}
			end()
			_ = cmd.Wait() // it was told to end
			if _, err := store.Open(t.Context(), url, store.Options{AsIs: true}); !errors.Is(err, store.ErrOutdated) {
				t.Errorf("as it is: %v", err)
			}
			_, ended := serveUntil(t, server.Config{Store: url, Name: "a"})
			if said := refusal(t, earlier, url, "b"); !strings.Contains(said, "newer version") {
				t.Errorf("the earlier build: %s", said)
			}
			ended()
		})
	}
}

// TestBuildsOfDifferentProtocols: a node that speaks otherwise than one that lives is refused before it is a
// member.
func TestBuildsOfDifferentProtocols(t *testing.T) {
	later := build(t, "later", "internal/cluster.protocol=2")
	database := realserver.StartPostgres(t, realserver.Volatile()...).Database(t)
	a, end := serveUntil(t, server.Config{Store: database, Name: "a"})
	said := refusal(t, later, database, "b")
	if !strings.Contains(said, `node "a"`) || !strings.Contains(said, "speaks version 1") ||
		!strings.Contains(said, "this one version 2") {
		t.Errorf("the later build: %s", said)
	}
	if status, err := a.Cluster().ClusterStatus(t.Context()); err != nil || len(status.Nodes) != 1 {
		t.Errorf("nodes: %+v, %v", status.Nodes, err)
	}
	end()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := serving(ctx, later, database, "b")
	var out lines
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the later build is up", func() bool { return out.containing("node is up") > 0 })
	_, err := server.New(server.Config{Store: database, Name: "a", GRPC: "127.0.0.1:0", HTTP: server.None})
	if err == nil || !strings.Contains(err.Error(), "speaks version 2") {
		t.Errorf("this build: %v", err)
	}
	cancel()
	_ = cmd.Wait() // it was told to end
}

package realserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS is a nats-server with JetStream, alone or of a cluster. It writes to disk before it acknowledges.
type NATS struct {
	Port   int
	Folder string // of its data

	cluster int // its port for the others; 0: it is alone
	daemon
}

// builtNATS is the program of the version that go.mod has.
var builtNATS = sync.OnceValues(func() (path string, err error) {
	const module = "github.com/nats-io/nats-server/v2"
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "carillon")
	path = filepath.Join(folder, "nats-server-"+strings.TrimSpace(string(version)))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // programs are no secret
		return "", err
	}
	fresh := fmt.Sprint(path, ".", os.Getpid()) // other tests may build it, too
	build := exec.Command("go", "build", "-o", fresh, module)
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, os.Rename(fresh, path)
})

func natsServer(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("nats-server"); err == nil {
		return path
	}
	path, err := builtNATS()
	if err != nil {
		t.Fatal("build nats-server: ", err)
	}
	return path
}

// StartNATS starts a NATS server that ends with the test.
func StartNATS(t testing.TB) *NATS {
	t.Helper()
	n := newNATS(t, 0)
	n.prepare(t, nil)
	n.Up(t)
	return n
}

// StartNATSCluster starts a cluster of so many NATS servers, which ends with the test.
func StartNATSCluster(t testing.TB, servers int) []*NATS {
	t.Helper()
	all := make([]*NATS, servers)
	for i := range all {
		all[i] = newNATS(t, Port(t))
	}
	for _, n := range all {
		n.prepare(t, all)
		n.Restart(t)
	}
	for _, n := range all {
		n.ready(t)
	}
	return all
}

func newNATS(t testing.TB, cluster int) *NATS {
	return &NATS{Port: Port(t), Folder: Folder(t, ""), cluster: cluster}
}

// prepare writes the server's settings.
func (n *NATS) prepare(t testing.TB, all []*NATS) {
	t.Helper()
	lines := []string{fmt.Sprintf("listen: 127.0.0.1:%d", n.Port), fmt.Sprintf("server_name: n%d", n.Port),
		fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }", filepath.Join(n.Folder, "data"))}
	if n.cluster != 0 {
		var routes []string
		for _, other := range all {
			routes = append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", other.cluster))
		}
		lines = append(lines, fmt.Sprintf("cluster { name: carillon, listen: 127.0.0.1:%d, routes: [%s] }", n.cluster,
			strings.Join(routes, ", ")))
	}
	settings := filepath.Join(n.Folder, "nats.conf")
	write(t, settings, strings.Join(lines, "\n")+"\n")
	n.program = Program{Path: natsServer(t), Args: []string{"-c", settings}, Folder: n.Folder}
}

// Up starts the server, after Crash or Down too, and waits until its JetStream answers.
func (n *NATS) Up(t testing.TB) {
	t.Helper()
	n.Restart(t)
	n.ready(t)
}

// Restart is Up without the wait: of several servers that were killed, one alone never answers.
func (n *NATS) Restart(t testing.TB) {
	t.Helper()
	n.process = Start(t, n.program)
}

func (n *NATS) ready(t testing.TB) {
	t.Helper()
	n.process.Ready(t, func(ctx context.Context) error {
		nc, err := nats.Connect(n.Address(), nats.NoReconnect())
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, time.Second) // nobody answers what came before there was a leader
		defer cancel()
		_, err = js.AccountInfo(once)
		return err
	})
}

// JetStream is the server's, for a client that connects again when it was down.
func (n *NATS) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(n.Address(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Address is where the server listens.
func (n *NATS) Address() string { return local(n.Port) }

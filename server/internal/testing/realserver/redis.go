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

	"github.com/redis/rueidis"
)

// Redis is a Redis server, alone or of a cluster.
type Redis struct {
	Port   int
	Folder string // of its data

	daemon
}

// StartRedis starts a Redis server that ends with the test. Settings are more of its configuration,
// "name=value"; without any it keeps what it acknowledges in an append-only file, synced at each write.
func StartRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r := &Redis{Port: Port(t)}
	r.prepare(t, settings)
	r.Up(t)
	return r
}

// prepare finds out how the server is started.
func (r *Redis) prepare(t testing.TB, settings []string) {
	t.Helper()
	path := Binary(t, "redis-server")
	r.Folder = Folder(t, "")
	args := []string{"--port", strconv.Itoa(r.Port), "--bind", "127.0.0.1", "--dir", r.Folder, "--save", "",
		"--daemonize", "no", "--appendonly", "yes", "--appendfsync", "always"}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		args = append(args, "--"+name, value)
	}
	r.program = Program{Path: path, Args: args, Folder: r.Folder}
}

// StartSentinel starts a sentinel that watches over a primary under a name, and lets a replica take its place
// soon after it has gone.
func StartSentinel(t testing.TB, name string, primary *Redis) *Redis {
	t.Helper()
	r := &Redis{Port: Port(t), Folder: Folder(t, "")}
	file := filepath.Join(r.Folder, "sentinel.conf")
	lines := []string{fmt.Sprint("port ", r.Port), "bind 127.0.0.1", "dir " + r.Folder,
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", name, primary.Port),
		"sentinel down-after-milliseconds " + name + " 500", "sentinel failover-timeout " + name + " 3000"}
	// it writes there what it learns
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.program = Program{Path: Binary(t, "redis-server"), Args: []string{file, "--sentinel"}, Folder: r.Folder}
	r.Up(t)
	return r
}

// Up starts the server, after Crash or Down too, and waits until it answers.
func (r *Redis) Up(t testing.TB) {
	t.Helper()
	r.process = Start(t, r.program)
	r.process.Ready(t, func(ctx context.Context) error {
		_, err := r.ask(ctx, "PING")
		return err
	})
}

// Wipe takes away what a server that does not run has kept.
func (r *Redis) Wipe(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(r.Folder, "appendonlydir")); err != nil {
		t.Fatal(err)
	}
}

// Address is where the server listens.
func (r *Redis) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)) }

// Do gives the server one command.
func (r *Redis) Do(t testing.TB, command ...string) string {
	t.Helper()
	out, err := r.ask(context.Background(), command...) // the test's context has ended when it cleans up
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(command, " "), err)
	}
	return out
}

func (r *Redis) ask(ctx context.Context, command ...string) (string, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Address()},
		ForceSingleClient: true, DisableCache: true,
		DisableRetry: true})
	if err != nil {
		return "", err
	}
	defer c.Close()
	answer, err := c.Do(ctx, c.B().Arbitrary(command...).Build()).ToAny()
	return fmt.Sprint(answer), err
}

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// StartRedisCluster starts a Redis Cluster of so many primaries, which ends with the test.
func StartRedisCluster(t testing.TB, primaries int, settings ...string) []*Redis {
	t.Helper()
	settings = append([]string{"cluster-enabled=yes", "cluster-config-file=nodes.conf",
		"cluster-node-timeout=3000"}, settings...)
	var all []*Redis
	for i := range primaries {
		r := &Redis{Port: clusterPort(t)}
		r.prepare(t, settings)
		r.Up(t)
		all = append(all, r)
		r.Do(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/primaries), strconv.Itoa((i+1)*slots/primaries-1))
		r.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i > 0 {
			r.Do(t, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(all[0].Port))
		}
	}
	for _, r := range all {
		r.process.Ready(t, func(ctx context.Context) error {
			info, err := r.ask(ctx, "CLUSTER", "INFO")
			for _, sign := range []string{"cluster_state:ok", fmt.Sprint("cluster_known_nodes:", primaries),
				fmt.Sprint("cluster_slots_ok:", slots)} {
				if err == nil && !strings.Contains(info, sign) {
					err = fmt.Errorf("the cluster is not formed: %s", info)
				}
			}
			return err
		})
	}
	return all
}

// clusterPort is a free port of which the one 10,000 above, where the servers of a cluster talk to each
// other, is one too.
func clusterPort(t testing.TB) int {
	t.Helper()
	const busOffset = 10_000
	for {
		if port := Port(t); reserved(t, port+busOffset) {
			return port
		}
	}
}

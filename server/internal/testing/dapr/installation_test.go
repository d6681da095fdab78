package dapr

import (
	"context"
	stdflag "flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// client does the requests of the tests.
var client = &http.Client{Timeout: patience}

// where is the environment variable that names the folder of Dapr's programs.
const where = "CARILLON_TEST_DAPR"

// program returns the path of one of Dapr's programs. Without it the test is skipped.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv(where)
	if dir == "" {
		t.Skip(where + " is not set: it takes the folder of Dapr 1.18's programs daprd, placement, scheduler and dapr")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s: %v", where, err)
	}
	return path
}

// original has the tests run with Dapr's own scheduler, for comparison.
var original = stdflag.Bool("original", false, "run with Dapr's own scheduler in Carillon's place, for comparison")

// carillon builds the binary under test.
func carillon(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "carillon")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/carillon")
	build.Dir = filepath.Join("..", "..", "..")
	build.Env = append(os.Environ(), "GOWORK=") // the modules of this checkout, whatever this one is tested with
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build carillon: %v\n%s", err, out)
	}
	return path
}

// installation is Dapr on one machine: placement, a state store for actors, schedulers, and any number of
// sidecars.
type installation struct {
	t          *testing.T
	placement  string // its address
	redis      *realserver.Redis
	schedulers []*scheduler
}

// scheduler is one member: Carillon, or Dapr's own.
type scheduler struct {
	program realserver.Program
	process *realserver.Process
	address string // of sidecars
	api     string // of Carillon's own API
	metrics string
	health  string
	etcd    string // its endpoint of etcd's protocol
}

// install starts placement and the state store.
func install(t *testing.T) *installation {
	t.Helper()
	path := program(t, "placement")
	port, health := realserver.Port(t), realserver.Port(t)
	in := &installation{t: t, placement: local(port), redis: realserver.StartRedis(t)}
	p := realserver.Start(t, realserver.Program{Path: path, End: syscall.SIGTERM, Args: []string{"--id=0",
		flag("port", port), "--listen-address=127.0.0.1", flag("healthz-port", health),
		"--healthz-listen-address=127.0.0.1", flag("metrics-port", realserver.Port(t)),
		"--metrics-listen-address=127.0.0.1", "--initial-cluster=0=" + local(realserver.Port(t)),
		"--tls-enabled=false"}})
	p.Ready(t, healthy("http://"+local(health)+"/healthz"))
	return in
}

// members starts n schedulers that share a store; an empty store is a folder of each one's own. They are
// Dapr's own, each with its folder, if the tests were told so.
func (in *installation) members(n int, store string) {
	t := in.t
	t.Helper()
	path := program(t, "scheduler")
	if !*original {
		path = carillon(t)
	}
	peers := make([]string, n)
	for i := range n {
		peers[i] = fmt.Sprintf("%s=http://%s", member(i), local(realserver.Port(t)))
	}
	var all []*scheduler
	for i := range n {
		s := in.scheduler(path, []string{flag("id", member(i)), flag("etcd-initial-cluster", strings.Join(peers, ",")),
			flag("etcd-data-dir", t.TempDir())})
		if !*original {
			s.api = local(realserver.Port(t))
			s.program.Args = append([]string{"dapr-scheduler", flag("grpc-listen", s.api)}, s.program.Args...)
		}
		if store != "" {
			s.program.Env = []string{"CARILLON_STORE=" + store}
		}
		s.process = realserver.Start(t, s.program)
		all = append(all, s)
	}
	for _, s := range all { // an etcd is healthy when most members are there
		s.process.Ready(t, healthy(s.health))
	}
	in.schedulers = all
}

// member is the name of a member.
func member(i int) string { return fmt.Sprint("dapr-scheduler-server-", i) }

// scheduler prepares a member with the flags that both know.
func (in *installation) scheduler(path string, args []string) *scheduler {
	in.t.Helper()
	port, health, metrics, etcd := realserver.Port(in.t), realserver.Port(in.t), realserver.Port(in.t),
		realserver.Port(in.t)
	s := &scheduler{address: local(port), metrics: "http://" + local(metrics), etcd: local(etcd),
		health: "http://" + local(health) + "/healthz"}
	s.program = realserver.Program{Path: path, End: syscall.SIGTERM, Folder: in.t.TempDir(),
		Args: append(args, flag("port", port), "--listen-address=127.0.0.1", flag("healthz-port", health),
			"--healthz-listen-address=127.0.0.1", flag("metrics-port", metrics), "--metrics-listen-address=127.0.0.1",
			flag("etcd-client-port", etcd), "--etcd-client-listen-address=127.0.0.1", "--identity-directory-write="+in.t.TempDir(),
			flag("override-broadcast-host-port", local(port)))}
	return s
}

// up starts a member, again too, and waits until it is healthy.
func (s *scheduler) up(t *testing.T) {
	t.Helper()
	s.process = realserver.Start(t, s.program)
	s.process.Ready(t, healthy(s.health))
}

// down ends a member by a signal.
func (s *scheduler) down(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// addresses returns where sidecars find the schedulers.
func (in *installation) addresses() string {
	var all []string
	for _, s := range in.schedulers {
		all = append(all, s.address)
	}
	return strings.Join(all, ",")
}

// sidecar is a daprd with its app.
type sidecar struct {
	http    string
	grpc    string
	app     *app
	process *realserver.Process
}

// stateStore keeps the state of actors, and so of workflows.
const stateStore = `apiVersion: dapr.io/v1alpha1
kind: Component
metadata: {name: state}
spec:
  type: state.redis
  version: v1
  metadata:
  - {name: redisHost, value: "%s"}
  - {name: actorStateStore, value: "true"}
`

// sidecar starts a daprd for an app. config is the spec of its Configuration; empty: it has none.
func (in *installation) sidecar(a *app, config string) *sidecar {
	t := in.t
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "components", "state.yaml"), fmt.Sprintf(stateStore, in.redis.Address()))
	http, grpc := realserver.Port(t), realserver.Port(t)
	args := []string{"--app-id=" + a.id, "--app-protocol=http", flag("app-port", a.port),
		flag("dapr-http-port", http), flag("dapr-grpc-port", grpc),
		flag("dapr-internal-grpc-port", realserver.Port(t)), flag("dapr-public-port", realserver.Port(t)),
		flag("metrics-port", realserver.Port(t)), flag("profile-port", realserver.Port(t)),
		"--dapr-listen-addresses=127.0.0.1", "--dapr-internal-grpc-listen-address=127.0.0.1",
		"--dapr-public-listen-address=127.0.0.1", "--metrics-listen-address=127.0.0.1",
		"--resources-path=" + filepath.Join(dir, "components"), "--placement-host-address=" + in.placement,
		"--scheduler-host-address=" + in.addresses(), "--mode=standalone", "--enable-mtls=false",
		"--dapr-graceful-shutdown-seconds=1", "--log-level=info"}
	if config != "" {
		path := filepath.Join(dir, "config.yaml")
		write(t, path, "apiVersion: dapr.io/v1alpha1\nkind: Configuration\nmetadata: {name: config}\nspec: "+config+"\n")
		args = append(args, "--config="+path)
	}
	s := &sidecar{http: "http://" + local(http), grpc: local(grpc), app: a}
	s.process = realserver.Start(t, realserver.Program{Path: program(t, "daprd"), Args: args, Folder: dir,
		End: syscall.SIGTERM})
	s.process.Ready(t, healthy(s.http+"/v1.0/healthz"))
	return s
}

// call does a request of Dapr's HTTP API; an answer that is not 2xx is an error.
func (s *sidecar) call(ctx context.Context, method, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.http+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return string(text), err
}

// must does a request that must succeed.
func (s *sidecar) must(t *testing.T, method, path, body string) string {
	t.Helper()
	text, err := s.call(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func flag(name string, value any) string { return fmt.Sprintf("--%s=%v", name, value) }

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// healthy asks a page that says by its status whether a program can serve.
func healthy(page string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		_ = answer.Body.Close() // nothing is read
		if answer.StatusCode/100 != 2 {
			return fmt.Errorf("%s: %s", page, answer.Status)
		}
		return nil
	}
}

// patience is how long something that must come may take, on a machine with much else to do.
const patience = time.Minute

// eventually waits until something is so, and fails the test if it takes too long.
func eventually(t *testing.T, what string, so func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := so()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

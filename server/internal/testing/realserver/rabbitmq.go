package realserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// RabbitMQ is a node of RabbitMQ, alone or of a cluster. Its user guest, with the password guest, may do
// anything.
type RabbitMQ struct {
	Port   int
	Folder string // of its data and its settings

	node string // its name for other nodes of Erlang
	env  []string
	daemon
}

// rabbitFolders are where its program is. The one on PATH, of Debian's package, becomes another user first.
const rabbitFolders = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"

// StartRabbitMQ starts a RabbitMQ that ends with the test. Settings are more lines of its rabbitmq.conf.
func StartRabbitMQ(t testing.TB, settings ...string) *RabbitMQ {
	t.Helper()
	r := newRabbitMQ(t, startNames(t), "carillon@localhost", settings)
	r.Up(t)
	return r
}

// StartRabbitMQCluster starts a cluster of so many nodes, which ends with the test.
func StartRabbitMQCluster(t testing.TB, nodes int) []*RabbitMQ {
	t.Helper()
	names, all := startNames(t), make([]*RabbitMQ, nodes)
	for i := range all {
		all[i] = newRabbitMQ(t, names, fmt.Sprintf("carillon%d@localhost", i), nil)
		all[i].write(t, ".erlang.cookie", "CARILLON") // nodes of a cluster have the same
		all[i].Restart(t)
	}
	for i, r := range all {
		if r.ready(t); i > 0 {
			r.Eval(t, fmt.Sprintf("ok = rabbit:stop(), ok = rabbit_mnesia:join_cluster('%s', disc), ok = rabbit:start().",
				all[0].node))
			r.ready(t)
		}
	}
	return all
}

// startNames starts Erlang's register of nodes, and returns its port. A node without one starts its own, and
// leaves it behind.
func startNames(t testing.TB) (port int) {
	t.Helper()
	port = Port(t)
	Start(t, Program{Path: Binary(t, "epmd"), Folder: Folder(t, ""),
		Args: []string{"-port", strconv.Itoa(port), "-address", "127.0.0.1"}})
	return port
}

// newRabbitMQ prepares a node.
func newRabbitMQ(t testing.TB, names int, node string, settings []string) *RabbitMQ {
	t.Helper()
	found, err := filepath.Glob(rabbitFolders)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		Missing(t, "rabbitmq-server is not installed")
	}
	r := &RabbitMQ{Port: Port(t), Folder: Folder(t, ""), node: node}
	r.env = []string{"HOME=" + r.Folder, fmt.Sprint("ERL_EPMD_PORT=", names), "ERL_EPMD_ADDRESS=127.0.0.1"}
	r.program = Program{Path: slices.Max(found), Folder: r.Folder, Env: append(slices.Clone(r.env),
		"RUNNING_UNDER_SYSTEMD=true", // the script becomes the server, in place of waiting for it
		"RABBITMQ_NODENAME="+r.node, fmt.Sprint("RABBITMQ_DIST_PORT=", Port(t)), "RABBITMQ_LOGS=-",
		"RABBITMQ_MNESIA_BASE="+filepath.Join(r.Folder, "data"), "RABBITMQ_LOG_BASE="+r.Folder,
		"RABBITMQ_CONFIG_FILE="+r.write(t, "rabbitmq.conf", r.settings(settings)),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+r.write(t, "plugins", "[rabbitmq_auth_mechanism_ssl]."),
		"RABBITMQ_CONF_ENV_FILE="+os.DevNull)}
	return r
}

func (r *RabbitMQ) settings(more []string) string {
	lines := append([]string{fmt.Sprint("listeners.tcp.1 = 127.0.0.1:", r.Port), "log.console.level = warning",
		"vm_memory_high_watermark.absolute = 2GB", "disk_free_limit.absolute = 1MB"}, more...)
	return strings.Join(lines, "\n") + "\n"
}

func (r *RabbitMQ) write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(r.Folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Up starts the server, after Crash or Down too, and waits until it speaks AMQP.
func (r *RabbitMQ) Up(t testing.TB) {
	t.Helper()
	r.Restart(t)
	r.ready(t)
}

// Restart is Up without the wait.
func (r *RabbitMQ) Restart(t testing.TB) {
	t.Helper()
	r.process = Start(t, r.program)
}

func (r *RabbitMQ) ready(t testing.TB) {
	t.Helper()
	r.process.Ready(t, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Address())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }() // what was read counts
		if _, err := io.WriteString(conn, "AMQP\x00\x00\x09\x01"); err != nil {
			return err
		}
		_, err = io.ReadFull(conn, make([]byte, 1))
		return err
	})
}

// Crash kills the server. What was declared is on its disk by then: RabbitMQ writes that up to two seconds
// after it has said so, and would have no such queue when it is up again.
func (r *RabbitMQ) Crash(t testing.TB) {
	t.Helper()
	r.Eval(t, "mnesia:sync_log().")
	r.daemon.Crash(t)
}

// Address is where the server listens.
func (r *RabbitMQ) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)) }

// evaluate has the node evaluate expressions of Erlang, and prints their value.
const evaluate = `{ok, Tokens, _} = erl_scan:string(os:getenv("CARILLON_EXPRESSIONS")),
	{ok, Parsed} = erl_parse:parse_exprs(Tokens),
	Node = list_to_atom(os:getenv("CARILLON_NODE")),
	case rpc:call(Node, erl_eval, exprs, [Parsed, erl_eval:new_bindings()]) of
		{value, Value, _} -> io:format("~p", [Value]), halt(0);
		Failure -> io:format("~p", [Failure]), halt(1)
	end.`

// Eval has the node evaluate expressions of Erlang: what its own tools do, in a tenth of the time.
func (r *RabbitMQ) Eval(t testing.TB, expressions string) string {
	t.Helper()
	cookie, err := os.ReadFile(filepath.Join(r.Folder, ".erlang.cookie"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience) // a test's has ended when it cleans up
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, "erl"), "-noinput", "-hidden", "-sname",
		fmt.Sprintf("test%d@localhost", os.Getpid()), "-setcookie", string(cookie), "-eval", evaluate)
	cmd.Env = append(append(os.Environ(), r.env...), "CARILLON_NODE="+r.node,
		"CARILLON_EXPRESSIONS="+expressions)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", expressions, err, out)
	}
	return string(out)
}

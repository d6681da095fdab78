package realserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Postgres is a PostgreSQL server of one node.
type Postgres struct {
	Port   int
	Folder string // of its data

	program Program
	process *Process
	made    atomic.Int64 // databases
}

// StartPostgres starts a PostgreSQL server that ends with the test. Settings are more of its configuration,
// "name=value"; without any it is durable, as it comes; see [Volatile].
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	path := postgresBinary(t, "postgres")
	user := ""
	if os.Geteuid() == 0 {
		user = "postgres" // the server refuses to run as root
	}
	p := &Postgres{Port: Port(t), Folder: filepath.Join(Folder(t, user), "data")}
	Run(t, Program{
		Path: filepath.Join(filepath.Dir(path), "initdb"), Folder: filepath.Dir(p.Folder), User: user,
		Args: []string{"-D", p.Folder, "-U", "postgres", "--auth=trust", "--no-sync", "--no-instructions",
			"-E", "UTF8", "--locale=C"},
	})
	p.prepare(path, user, settings)
	p.Up(t)
	return p
}

// postgresBinary finds a program of PostgreSQL.
func postgresBinary(t testing.TB, name string) string {
	t.Helper()
	return Binary(t, name, "/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/usr/local/opt/postgresql*/bin")
}

// prepare finds out how the server is started.
func (p *Postgres) prepare(path, user string, settings []string) {
	args := []string{"-D", p.Folder, "-p", strconv.Itoa(p.Port), "-c", "listen_addresses=127.0.0.1", "-c",
		"unix_socket_directories="}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	// SIGQUIT ends the server at once and with it its children, which are in groups of their own.
	p.program = Program{Path: path, Args: args, Folder: filepath.Dir(p.Folder), User: user, End: syscall.SIGQUIT}
}

// Standby starts a server that follows this one, asynchronously, and takes over when it is told to: SELECT
// pg_promote().
func (p *Postgres) Standby(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	return p.standby(t, p.Address(), settings)
}

// standby is Standby for a server that reaches this one at an address of its own.
func (p *Postgres) standby(t testing.TB, address string, settings []string) *Postgres {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	s := &Postgres{Port: Port(t), Folder: filepath.Join(Folder(t, p.program.User), "data")}
	Run(t, Program{
		Path: postgresBinary(t, "pg_basebackup"), Folder: filepath.Dir(s.Folder), User: p.program.User,
		Args: []string{"-D", s.Folder, "-h", host, "-p", port, "-U", "postgres", "-R", "-X", "stream", "-c",
			"fast", "--no-sync"},
	})
	s.prepare(p.program.Path, p.program.User, settings)
	s.Up(t)
	return s
}

// Volatile are settings for tests of what a server does, not of what it keeps: nothing is written through to
// the disk.
func Volatile() []string {
	return []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=300"}
}

// Up starts the server, after Crash or Down too, and waits until it answers.
func (p *Postgres) Up(t testing.TB) {
	t.Helper()
	p.process = Start(t, p.program)
	p.process.Ready(t, func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, p.URL("postgres"))
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
}

// Process is the server's, as it was started last.
func (p *Postgres) Process() *Process { return p.process }

// Crash ends the server at once: no transaction is finished, nothing is tidied up.
func (p *Postgres) Crash(t testing.TB) { p.signal(t, syscall.SIGQUIT) }

// Down ends the server in an orderly way: transactions in flight are rolled back.
func (p *Postgres) Down(t testing.TB) { p.signal(t, syscall.SIGINT) }

func (p *Postgres) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Address is where the server listens.
func (p *Postgres) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)) }

// URL is of a database.
func (p *Postgres) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.Address(), database)
}

// Database makes an empty database and returns its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprint("test_", p.made.Add(1))
	p.Exec(t, "postgres", "CREATE DATABASE "+name)
	return p.URL(name)
}

// Exec does one statement in a database.
func (p *Postgres) Exec(t testing.TB, database, sql string) {
	t.Helper()
	ctx := context.Background() // the test's has ended when it cleans up
	c, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

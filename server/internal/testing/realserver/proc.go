// Package realserver starts real servers for tests: on a free port, in a temporary folder, in a process group
// of their own, ended with the test. A test that needs one is skipped where its binary is missing, unless
// CARILLON_TEST_REQUIRE=all.
//
//	proc.go           processes: find, start, wait until ready, end
//	postgres.go       PostgreSQL
//	postgres_pair.go  a primary and its standby, failover
//	redis.go          Redis, Redis Cluster
//	etcd.go           etcd, alone or as a cluster
//	kafka.go          Kafka
//	rabbitmq.go       RabbitMQ, alone or as a cluster
//	nats.go           NATS, alone or as a cluster
//	kubernetes.go     an API server of Kubernetes
//	authority.go      a certificate for servers
package realserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server may take to be ready, and to end, on a machine with much else to do.
const patience = time.Minute

// Missing skips the test because something that it needs is not here, or fails it if everything is required.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CARILLON_TEST_REQUIRE") == "all" {
		t.Fatalf("%s, and CARILLON_TEST_REQUIRE=all", what)
	}
	t.Skip(what)
}

// Binary finds a program on PATH, or in the folders that match one of the patterns: the last one, which is
// the newest version. Without it the test is skipped.
func Binary(t testing.TB, name string, patterns ...string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(pattern, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			return slices.Max(found)
		}
	}
	Missing(t, name+" is not installed")
	return ""
}

// Port is a free one of the loopback interface, which no other test gets until this one has ended, also while
// its server is down. It is below those that outgoing connections get: a client that connects cannot take it.
func Port(t testing.TB) int {
	t.Helper()
	const first, end = 10_000, 32_768
	for range 1000 {
		if port := first + rand.IntN(end-first); reserved(t, port) {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// PortPair is a free port whose next one is free, too.
func PortPair(t testing.TB) int {
	t.Helper()
	for {
		if port := Port(t); reserved(t, port+1) {
			return port
		}
	}
}

// reserved reports whether nobody listens on a port, and no other test, of this process or of another, has
// reserved it. It is reserved by a socket of UDP, of which the servers have none.
func reserved(t testing.TB, port int) bool {
	t.Helper()
	var listen net.ListenConfig
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	kept, err := listen.ListenPacket(t.Context(), "udp", address)
	if err != nil {
		return false
	}
	l, err := listen.Listen(t.Context(), "tcp", address)
	if err != nil {
		_ = kept.Close() // nothing was sent
		return false
	}
	t.Cleanup(func() { _ = kept.Close() }) // as before
	return l.Close() == nil
}

// Folder is an empty one that belongs to a user, removed when the test has ended; an empty user is this
// process's.
func Folder(t testing.TB, user string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-server-") //nolint:usetesting // the parents of t.TempDir are for this user only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if user != "" {
		uid, gid := lookUp(t, user)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Program is what is started.
type Program struct {
	Path   string
	Args   []string
	Env    []string       // more variables, "name=value"
	Folder string         // where it works; default the test's
	User   string         // whom it runs as; default who runs the test
	End    syscall.Signal // what ends it with the test; default SIGKILL
}

// command prepares the program to run in a group of its own.
func (p *Program) command(t testing.TB) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(p.Path, p.Args...) //nolint:noctx // a test says what to run; its clean-up ends it
	cmd.Dir = p.Folder
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.WaitDelay = patience // children may hold the pipes
	p.setUp(t, cmd)
	return cmd
}

// Run runs a program to its end, which must be a good one.
func Run(t testing.TB, p Program) {
	t.Helper()
	if out, err := p.command(t).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", p.Path, err, out)
	}
}

// Process is a program that runs.
type Process struct {
	name   string
	cmd    *exec.Cmd
	log    tail
	end    syscall.Signal
	exited chan struct{}
}

// Start starts a program, which is ended with the test. If the test has failed, the end of the program's log
// is shown.
func Start(t testing.TB, p Program) *Process {
	t.Helper()
	s := &Process{name: filepath.Base(p.Path), cmd: p.command(t), end: p.End, exited: make(chan struct{})}
	if s.end == 0 {
		s.end = syscall.SIGKILL
	}
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", s.name, err)
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // ProcessState says how it ended
	}()
	t.Cleanup(func() {
		if err := s.Signal(s.end); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", s.name, s.Log())
		}
	})
	return s
}

// Signal sends a signal that ends the process, and waits until it is gone; after a while it is killed with
// its group.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s: %w", s, p.name, err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.exited:
	case <-late.C:
		killGroup(p.cmd.Process)
		<-p.exited
		return fmt.Errorf("%s did not end within %v of %v: killed", p.name, patience, s)
	}
	killGroup(p.cmd.Process) // what it may have left behind
	return nil
}

// Exited is closed when the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the end of what the process has written.
func (p *Process) Log() string { return p.log.String() }

// Ready asks until the answer is no error; it fails the test if the process ends before, or takes too long.
func (p *Process) Ready(t testing.TB, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-p.exited:
			t.Fatalf("%s ended before it was ready: %v\n%s", p.name, p.cmd.ProcessState, p.Log())
		case <-ctx.Done():
			t.Fatalf("%s is not ready: %v\n%s", p.name, err, p.Log())
		}
	}
}

// daemon is a server that tests start again, end and halt.
type daemon struct {
	program Program
	process *Process
}

// PID is the server's process.
func (d *daemon) PID() int { return d.process.PID() }

// Crash kills the server.
func (d *daemon) Crash(t testing.TB) { d.end(t, syscall.SIGKILL) }

// Down ends the server in an orderly way.
func (d *daemon) Down(t testing.TB) { d.end(t, syscall.SIGTERM) }

func (d *daemon) end(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := d.process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops the server where it is until [daemon.Thaw]: it keeps its connections and answers nothing. The
// signal is on its way for a moment; Freeze returns when all threads have stopped.
func (d *daemon) Freeze(t testing.TB) {
	t.Helper()
	d.send(t, syscall.SIGSTOP)
	end := time.Now().Add(patience)
	for !stopped(d.process.PID()) {
		if time.Now().After(end) {
			t.Fatal("the server does not stop")
		}
		runtime.Gosched()
	}
}

// Thaw lets a frozen server go on.
func (d *daemon) Thaw(t testing.TB) { d.send(t, syscall.SIGCONT) }

func (d *daemon) send(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(d.process.PID(), s); err != nil {
		t.Fatal(err)
	}
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is how much of a log is kept.
const tailBytes = 16 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailBytes {
		t.text = bytes.Clone(t.text[len(t.text)-tailBytes:])
	}
	return len(p), nil
}

// String is what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// jars returns the folder of the jars of a program that Maven has brought: that of the variable
// CARILLON_PROGRAM, or carillon/program of the user's cache. One of them is called so. Without them the test
// is skipped.
func jars(t testing.TB, program, called string) string {
	t.Helper()
	name := strings.ToLower(program)
	folder := os.Getenv("CARILLON_" + strings.ToUpper(program))
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(cache, "carillon", name)
	}
	if found, err := filepath.Glob(filepath.Join(folder, called)); err != nil || len(found) == 0 {
		Missing(t, fmt.Sprintf("there is no %s in %s: mvn -f tools/%s/pom.xml dependency:copy-dependencies -DoutputDirectory=%s",
			program, folder, name, folder))
	}
	return folder
}

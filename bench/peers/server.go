package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// server is a process that was started here, with a folder of its own. It is a process group, so that
// whatever it starts ends with it.
type server struct {
	cmd    *exec.Cmd
	dir    string
	log    string // the file that it writes to
	exited chan struct{}
}

// startServer starts a command that keeps its data in dir; dir is removed when the server is closed. A nil
// owner is the user who runs this program.
func startServer(dir string, owner *syscall.Credential, command string, args ...string) (*server, error) {
	s := &server{dir: dir, log: filepath.Join(dir, "log")}
	if err := s.run(owner, command, args...); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// run starts the process.
func (s *server) run(owner *syscall.Credential, command string, args ...string) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(command, args...) //nolint:noctx,gosec // it outlives the call; the commands are those of this package
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: owner}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return nil
}

// kill ends the server by SIGKILL and leaves its folder.
func (s *server) kill() error {
	err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.exited
	return err
}

// again starts the same server on what it has left.
func (s *server) again() error {
	old := s.cmd
	return s.run(old.SysProcAttr.Credential, old.Path, old.Args[1:]...)
}

// resident is the memory of the server and all that it has started, in bytes.
func (s *server) resident() int64 { return treeResident(s.cmd.Process.Pid) }

// patience is how long a server may take to start, and to end.
const patience = 30 * time.Second

// ready asks until the answer is nil. It gives up when the server has ended.
func (s *server) ready(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s ended before it was ready: %s", s.cmd.Path, s.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; it says: %s", s.cmd.Path, err, s.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastWords is the end of the log.
func (s *server) lastWords() string {
	const most = 500
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// cpu is what the server and all that it has started have used.
func (s *server) cpu() time.Duration { return treeCPU(s.cmd.Process.Pid) }

// close ends the server at once: SIGQUIT is what PostgreSQL calls an immediate shutdown, and ends its
// children too; the others have nothing to lose. Its folder is removed.
func (s *server) close() error {
	group := -s.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGQUIT) // it may have ended
	select {
	case <-s.exited:
	case <-time.After(patience):
	}
	_ = syscall.Kill(group, syscall.SIGKILL) // what is left of it, if anything
	<-s.exited
	return os.RemoveAll(s.dir)
}

// tempDir is a new folder that every user may enter: PostgreSQL does not run as root.
func tempDir(peer string) (string, error) {
	dir, err := os.MkdirTemp("", "peers-"+peer+"-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // see above
}

// freePorts are ports of the loopback interface that nobody listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	var held []net.Listener // all at once, so that none is given twice
	defer func() {
		for _, l := range held {
			_ = l.Close() // nobody has connected
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// reachable reports whether somebody listens there.
func reachable(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// says is the first line that a command prints.
func says(ctx context.Context, command string, args ...string) string {
	out, err := exec.CommandContext(ctx, command, args...).Output()
	if err != nil {
		return "unknown version"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

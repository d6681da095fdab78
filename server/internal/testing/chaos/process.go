package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Build makes the binary in a folder and returns its path. It is the one that is shipped: no tag, no flag for
// tests.
func Build(ctx context.Context, folder string) (string, error) {
	binary := filepath.Join(folder, "carillon")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary,
		"github.com/carillonhq/carillon/server/cmd/carillon")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build carillon: %w\n%s", err, out)
	}
	return binary, nil
}

// Node is a node that is started and ended again and again, with the same store and ports.
type Node struct {
	Binary string
	Name   string   // in its cluster; "" = it is alone
	Store  string   // its URL
	GRPC   string   // address
	HTTP   string   // address
	Flags  []string // more flags of serve, or all but the addresses and the store of dapr-scheduler
	Dapr   string   // address at which sidecars are taken; "" = the command is serve
	File   string   // what is logged is appended to it; "" = only the end is kept, for Log

	log  tail
	life atomic.Pointer[life] // the last one

	dying  sync.Mutex
	deaths []Death
}

// life is one process of a node.
type life struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone
}

// NewNode makes a node, not started, on free ports.
func NewNode(binary, store string, flags ...string) (*Node, error) {
	n := &Node{Binary: binary, Store: store, Flags: flags}
	for _, addr := range []*string{&n.GRPC, &n.HTTP} {
		var err error
		if *addr, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Start starts the process. It does not wait until the node is ready.
func (n *Node) Start() error {
	cmd := exec.Command(n.Binary, append(n.args(), n.Flags...)...) //nolint:noctx // it outlives the call
	l := &life{cmd: cmd, exited: make(chan struct{})}
	closeLog, err := n.logTo(l.cmd)
	if err != nil {
		return err
	}
	l.cmd.Env = append(os.Environ(), "CARILLON_CONFIG=")
	dieWithParent(l.cmd)
	if err := l.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start the node: %w", err), closeLog())
	}
	n.life.Store(l)
	go func() {
		defer close(l.exited)
		_ = l.cmd.Wait() // ProcessState says how it ended
		_ = closeLog()   // it is read by people
	}()
	return nil
}

// args are the command and its addresses and store.
func (n *Node) args() []string {
	if n.Dapr == "" {
		return []string{"serve", "--store", n.Store, "--grpc", n.GRPC, "--http", n.HTTP,
			"--allow-target", "127.0.0.0/8"}
	}
	_, port, _ := strings.Cut(n.Dapr, ":")
	args := []string{"dapr-scheduler", "--listen-address", "127.0.0.1", "--port", port, "--healthz-port", "0",
		"--healthz-listen-address", "127.0.0.1", "--etcd-client-listen-address", "none", "--enable-metrics=false",
		"--grpc-listen", n.GRPC,
		"--http-listen", n.HTTP}
	if n.Store != "" {
		args = append(args, "--store", n.Store)
	}
	return args
}

// logTo says where the process is to log to.
func (n *Node) logTo(cmd *exec.Cmd) (closeLog func() error, err error) {
	cmd.Stdout, cmd.Stderr = &n.log, &n.log
	if n.File == "" {
		return func() error { return nil }, nil
	}
	f, err := os.OpenFile(n.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of the node: %w", err)
	}
	w := io.MultiWriter(f, &n.log)
	cmd.Stdout, cmd.Stderr = w, w
	return f.Close, nil
}

// PID is the process's.
func (n *Node) PID() int { return n.life.Load().cmd.Process.Pid }

// Runs reports whether there is a process.
func (n *Node) Runs() bool {
	l := n.life.Load()
	if l == nil {
		return false
	}
	select {
	case <-l.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process is gone.
func (n *Node) Exited() <-chan struct{} { return n.life.Load().exited }

// State says how the process ended; nil if it has not.
func (n *Node) State() *os.ProcessState { return n.life.Load().cmd.ProcessState }

// Ready waits until the node says that it is ready, or is gone.
func (n *Node) Ready(ctx context.Context) error {
	var last error
	for {
		if _, last = n.get(ctx, "/readyz"); last == nil {
			return nil
		}
		select {
		case <-n.Exited():
			return fmt.Errorf("the node ended before it was ready: %s\n%s", n.State(), n.Log())
		default:
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("the node is not ready: %w\n%s", last, n.Log())
		}
	}
}

// Until waits until the answer to a path of the HTTP listener is as wanted.
func (n *Node) Until(ctx context.Context, path string, wanted func(body string, err error) bool) error {
	for {
		body, err := n.get(ctx, path)
		if wanted(body, err) {
			return nil
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("GET %s does not become as wanted: %w\n%s\n%s", path, err, body, n.Log())
		}
	}
}

// oneCall keeps no connection: the other end is killed all the time.
var oneCall = http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get asks the HTTP listener. An answer that is not 200 is an error with the body in it.
func (n *Node) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := oneCall.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return string(body), fmt.Errorf("%s: %s", res.Status, body)
	}
	return string(body), nil
}

// Kill ends the process as a crash would, and waits until it is gone.
func (n *Node) Kill() error {
	l := n.life.Load()
	if l == nil {
		return nil // it was never started
	}
	at := time.Now()
	err := l.cmd.Process.Kill()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the node: %w", err)
	}
	<-l.exited
	if err == nil {
		n.dying.Lock()
		defer n.dying.Unlock()
		n.deaths = append(n.deaths, Death{Node: n.Name, At: at})
	}
	return nil
}

// Death is that a node was killed.
type Death struct {
	Node string // its name; "" = there is no other
	At   time.Time
}

// Deaths are the moments at which the process was killed.
func (n *Node) Deaths() []Death {
	n.dying.Lock()
	defer n.dying.Unlock()
	return slices.Clone(n.deaths)
}

// Term asks the process to leave; it does not wait.
func (n *Node) Term() error {
	if err := n.life.Load().cmd.Process.Signal(syscall.SIGTERM); err != nil &&
		!errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end the node: %w", err)
	}
	return nil
}

// Leave asks the process to leave, and waits until it has, which it must do in good order and soon.
func (n *Node) Leave(ctx context.Context) error {
	if err := n.Term(); err != nil {
		return err
	}
	return n.Left(ctx)
}

// Left waits until the process has left that was asked to; another signal would end it at once.
func (n *Node) Left(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	select {
	case <-n.Exited():
	case <-ctx.Done():
		return fmt.Errorf("the node does not end after SIGTERM:\n%s", n.Log())
	}
	if state := n.State(); !state.Success() {
		return fmt.Errorf("the node left with %s:\n%s", state, n.Log())
	}
	return nil
}

// leaveWithin is how long a node may take to leave: its grace for attempts, and a busy machine.
const leaveWithin = 30 * time.Second

// Log is the end of what the node has logged in all its lives.
func (n *Node) Log() string { return n.log.String() }

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is how much of a log is kept.
const tailBytes = 64 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*tailBytes {
		t.text = append([]byte(nil), t.text[len(t.text)-tailBytes:]...)
	}
	return len(p), nil
}

// String is what is kept, from a line's beginning.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text[max(0, len(t.text)-tailBytes):]
	if i := bytes.IndexByte(text, '\n'); len(text) == tailBytes && i >= 0 {
		text = text[i+1:]
	}
	return string(text)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

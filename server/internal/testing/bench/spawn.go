package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Program is a node to be started in a process of its own.
type Program struct {
	Binary     string         // carillon
	Store      string         // as for serve
	Partitions int            // of a new store; 0 = the default
	Name       string         // of the node; "" = one that is made up
	Brokers    string         // its file of message brokers; "" = none
	Args       []string       // further arguments of serve
	Trust      *x509.CertPool // what its certificate is verified against; nil = it has no TLS
	Log        io.Writer
}

// Server is a node in a process of its own, started for a bench.
type Server struct {
	program Program
	grpc    string
	http    string
	debug   string
	cmd     *exec.Cmd
	exited  chan struct{}
}

// Spawn starts a node and waits until it is ready.
func Spawn(ctx context.Context, p Program) (*Server, error) {
	s := &Server{program: p}
	for _, addr := range []*string{&s.grpc, &s.http, &s.debug} {
		var err error
		if *addr, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Node is the node under load, connected to by dial.
func (s *Server) Node(dial func(address string) (Conn, error)) Node {
	return Node{PID: s.cmd.Process.Pid, HTTP: s.http, Debug: s.debug,
		Connect: func() (Conn, error) { return dial(s.grpc) }}
}

// Start starts the node, again if it was killed, and waits until it is ready.
func (s *Server) Start(ctx context.Context) error {
	args := []string{"serve", "--store", s.program.Store, "--grpc", s.grpc, "--http", s.http,
		"--debug-listen", s.debug, "--allow-target", "127.0.0.0/8", "--log-level", "warn"}
	if s.program.Partitions > 0 {
		args = append(args, "--partitions", strconv.Itoa(s.program.Partitions))
	}
	if s.program.Name != "" {
		args = append(args, "--node-name", s.program.Name)
	}
	if s.program.Brokers != "" {
		args = append(args, "--brokers", s.program.Brokers)
	}
	args = append(args, s.program.Args...)
	s.cmd = exec.Command(s.program.Binary, args...) //nolint:noctx // it outlives the call that starts it
	s.cmd.Stdout, s.cmd.Stderr = s.program.Log, s.program.Log
	s.cmd.Env = append(os.Environ(), "CARILLON_CONFIG=")
	s.exited = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // how it ended is of no interest: it was killed, or readiness says that it is gone
	}()
	return s.ready(ctx)
}

// ready waits until the node says that it is.
func (s *Server) ready(ctx context.Context) error {
	scheme, transport := "http", &http.Transport{}
	if s.program.Trust != nil {
		scheme = "https"
		transport.TLSClientConfig = &tls.Config{RootCAs: s.program.Trust, MinVersion: tls.VersionTLS12}
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: time.Second, Transport: transport}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+s.http+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close() // only the status counts
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the node ended before it was ready: %s", s.cmd.ProcessState)
		default:
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return errors.Join(fmt.Errorf("the node at %s is not ready", s.http), err)
		}
	}
}

// Kill ends the node as a power cut would.
func (s *Server) Kill() error {
	err := s.cmd.Process.Kill()
	<-s.exited
	return err
}

// Stop asks the node to end and waits, for a while.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("the node did not end within 30 s of SIGTERM"), s.Kill())
	}
}

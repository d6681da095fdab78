package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon/server/store"
)

// Backoff between attempts to open a store whose server is away: it doubles from firstWait to lastWait.
const (
	firstWait = 250 * time.Millisecond
	lastWait  = 5 * time.Second
)

// ErrNotStarted reports that a node was told to end before its store could be opened.
var ErrNotStarted = errors.New("the node was told to end before its store could be opened")

// Await is [New], but waits for a store whose server is away ([store.ErrAway]), and for [Credentials], until
// ctx ends; then the error is [ErrNotStarted]. Meanwhile the listeners report that the process lives and why
// it is not ready, and refuse calls as Unavailable.
func Await(ctx context.Context, c Config) (*Server, error) {
	s, err := bind(c)
	if err != nil {
		return nil, err
	}
	node, err := s.await(ctx)
	if err != nil {
		return nil, errors.Join(err, s.closeUnserved())
	}
	return s.begin(node)
}

// await starts the node as soon as its store can be opened.
func (s *Server) await(ctx context.Context) (*Node, error) {
	node, err := s.start(ctx)
	what := lacking(err)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ErrNotStarted
	case what == "":
		return node, err
	}
	since := time.Now()
	level := slog.LevelWarn
	if errors.Is(err, errNoCredentials) {
		level = slog.LevelInfo // at every start the first one takes a moment; whoever gets it logs faults
	}
	s.log.Log(ctx, level, "waiting for "+what, "store", store.Redact(s.config.Store), "error", err)
	w := s.whileWaiting(err)
	node, err = w.await(ctx, func() (*Node, error) { return s.start(ctx) })
	if closed := w.close(); closed != nil && err == nil {
		err = errors.Join(closed, node.Stop(), node.leave())
	}
	switch {
	case err == nil:
		s.log.Info(what+" is there", "waited", time.Since(since).Round(time.Millisecond))
	case ctx.Err() != nil:
		err = ErrNotStarted
		s.log.Info("node has left", "reason", err)
	}
	return node, err
}

// lacking returns what a node that could not be started waits for; empty: it is started, or waits for
// nothing.
func lacking(err error) string {
	switch {
	case errors.Is(err, store.ErrAway):
		return "the store"
	case errors.Is(err, errNoCredentials):
		return "a certificate"
	}
	return ""
}

// await tries to start the node until it lacks nothing any more, or ctx ends.
func (w *waitingServer) await(ctx context.Context, start func() (*Node, error)) (node *Node, err error) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		select {
		case <-time.After(wait + rand.N(wait/4)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if node, err = start(); lacking(err) == "" {
			return node, err
		}
		w.because(err)
	}
}

// waitingServer answers at the listeners of a node that waits for its store.
type waitingServer struct {
	listeners []*keptListener
	ends      []func() // end the servers
	serving   sync.WaitGroup

	mu  sync.Mutex
	err error
}

// whileWaiting starts to answer; close ends that and leaves the listeners to the node.
func (s *Server) whileWaiting(err error) *waitingServer {
	w := &waitingServer{err: err}
	for _, d := range s.listeners {
		at := &keptListener{Listener: d.at}
		w.listeners = append(w.listeners, at)
		switch {
		case d.name == "grpc" && (s.config.Credentials == nil || s.config.Credentials.Clients != nil):
			w.overGRPC(at, s.config.Credentials.server())
		case d.name == "grpc", d.name == "dapr":
			w.turnAway(at)
		default:
			w.overHTTP(s, d, at)
		}
	}
	return w
}

// Err returns why the node is not ready.
func (w *waitingServer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Errorf("waiting for %s: %w", lacking(w.err), w.err)
}

func (w *waitingServer) because(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// close ends the servers and takes the listeners back.
func (w *waitingServer) close() error {
	var faults []error
	for _, l := range w.listeners {
		faults = append(faults, l.Close())
	}
	for _, end := range w.ends {
		end()
	}
	w.serving.Wait()
	for _, l := range w.listeners {
		faults = append(faults, l.reopen())
	}
	return errors.Join(faults...)
}

// overHTTP answers probes. The paths are those of all listeners.
func (w *waitingServer) overHTTP(s *Server, d *listener, at *keptListener) {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("ok\n")) })
	mux.HandleFunc("/", func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, w.Err().Error(), http.StatusServiceUnavailable)
	})
	// Nothing is recorded yet: there is no node.
	server := &http.Server{Handler: s.ifNamed(d, nil, mux), ReadTimeout: readTimeout, WriteTimeout: readTimeout,
		ReadHeaderTimeout: readHeaderTimeout, MaxHeaderBytes: maxHeaderBytes}
	serve := server.Serve
	if clients := s.config.Credentials.clients(); clients != nil && d.name == "http" {
		server.TLSConfig, server.Handler = clients.HTTP, s.config.Credentials.overHTTP(server.Handler, nil)
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	w.serving.Go(func() { _ = serve(at) })
	w.ends = append(w.ends, func() { _ = server.Close() }) // an error is about the kept listener
}

// overGRPC answers all calls as Unavailable, and health checks with not serving.
func (w *waitingServer) overGRPC(at *keptListener, options []grpc.ServerOption) {
	away := grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Unavailable, w.Err().Error())
	})
	server := grpc.NewServer(append(slices.Clip(options), away)...)
	checks := health.NewServer()
	checks.Shutdown()
	healthpb.RegisterHealthServer(server, checks)
	w.serving.Go(func() { _ = server.Serve(at) })
	w.ends = append(w.ends, server.Stop)
}

// turnAway closes connections at once: only the started node has the certificates for sidecars and nodes.
func (w *waitingServer) turnAway(at *keptListener) {
	w.serving.Go(func() {
		for {
			conn, err := at.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
}

// keptListener is a listener that stays open when the server that uses it closes it.
type keptListener struct {
	net.Listener
	over atomic.Bool
}

// Accept implements [net.Listener].
func (l *keptListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil && l.over.Load() {
		return nil, net.ErrClosed
	}
	return conn, err
}

// Close implements [net.Listener]: it ends Accept, and leaves the listener open.
func (l *keptListener) Close() error {
	l.over.Store(true)
	return l.until(time.Unix(1, 0))
}

// reopen makes the listener usable again, after all calls of Accept have returned.
func (l *keptListener) reopen() error { return l.until(time.Time{}) }

func (l *keptListener) until(t time.Time) error {
	return l.Listener.(interface{ SetDeadline(t time.Time) error }).SetDeadline(t) // listen made it for TCP
}

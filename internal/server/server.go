package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/grpcapi"
	"github.com/carillonhq/carillon/internal/httpapi"
)

// Server is a node with its listeners.
type Server struct {
	node   *Node
	config Config
	log    *slog.Logger

	grpc       *grpcapi.Server
	grpcAt     net.Listener
	stopOthers func() // ends the streams of [Config.Faces]
	http       *http.Server
	httpAt     net.Listener
	debug      *debugFace
}

// Limits of the HTTP listener; a body is limited by package httpapi.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute // a call has 1 min
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
)

// New starts a node and listens. The listeners are served, and everything is ended, by [Server.Run].
func New(c Config) (*Server, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	s := &Server{config: c, log: c.Log}
	if err := s.listen(); err != nil {
		return nil, err
	}
	node, err := Start(context.Background(), c)
	if err != nil {
		return nil, errors.Join(err, s.closeListeners())
	}
	s.node = node
	if err := s.serveFaces(); err != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		return nil, errors.Join(err, node.Close(now), s.closeListeners())
	}
	return s, nil
}

// listen opens the listeners, before the store is opened: a port that is taken is the most common mistake.
func (s *Server) listen() error {
	var err error
	if s.grpcAt, err = net.Listen("tcp", s.config.GRPC); err != nil {
		return fmt.Errorf("grpc: %w", err)
	}
	if s.httpAt, err = net.Listen("tcp", s.config.HTTP); err != nil {
		return errors.Join(fmt.Errorf("http: %w", err), s.grpcAt.Close())
	}
	if s.debug, err = listenDebug(&s.config, s.log); err != nil {
		return errors.Join(err, s.grpcAt.Close(), s.httpAt.Close())
	}
	return nil
}

func (s *Server) closeListeners() error {
	return errors.Join(s.grpcAt.Close(), s.httpAt.Close(), s.debug.close())
}

// serveFaces puts the faces over the node's scheduler.
func (s *Server) serveFaces() error {
	service := grpcapi.NewService(s.node.Remote(), s.grpcOptions())
	handler, err := httpapi.New(service, httpapi.Options{
		Logger:         s.log,
		Interceptor:    service.Guard,
		Ready:          func(context.Context) error { return s.node.Ready() },
		Metrics:        s.node.Metrics().Handler(),
		AllowHost:      s.config.allowHost,
		TrustedOrigins: s.config.TrustedOrigins,
	})
	if err != nil {
		return fmt.Errorf("configuration: trusted_origins: %w", err)
	}
	s.grpc = grpcapi.NewServer(service)
	s.stopOthers = s.node.register(s.config.Faces, s.grpc)
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what clients do wrong
	}
	return nil
}

// Scheduler is the node's, without a hop over the network.
func (s *Server) Scheduler() carillon.Scheduler { return s.node.Scheduler() }

// GRPCAddr is where gRPC is listened for.
func (s *Server) GRPCAddr() string { return s.grpcAt.Addr().String() }

// HTTPAddr is where HTTP is listened for.
func (s *Server) HTTPAddr() string { return s.httpAt.Addr().String() }

// DebugAddr is where profiles are served; empty if they are not.
func (s *Server) DebugAddr() string {
	if s.debug == nil {
		return ""
	}
	return s.debug.at.Addr().String()
}

// Ready is nil if the node can serve, otherwise it says why not.
func (s *Server) Ready() error { return s.node.Ready() }

// Run serves until ctx ends or a listener fails, then leaves in good order. It must be called once, also to end a server
// that is not needed after all.
func (s *Server) Run(ctx context.Context) error {
	faces := []func() error{
		func() error { return wrap("grpc", s.grpc.Serve(s.grpcAt)) },
		func() error { return wrap("http", s.http.Serve(s.httpAt)) },
	}
	if s.debug != nil {
		faces = append(faces, s.debug.serve)
	}
	failed := make(chan error, len(faces))
	for _, serve := range faces {
		go func() { failed <- serve() }()
	}
	s.log.Info("node is up", "grpc", s.GRPCAddr(), "http", s.HTTPAddr(), "store", s.config.Store)
	var err error
	running := len(faces)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	s.log.Info("node is leaving", "grace", s.config.DrainGrace)
	err = errors.Join(err, s.leave())
	for range running {
		err = errors.Join(err, <-failed)
	}
	s.log.Info("node has left")
	return err
}

// leave drains the node, then ends it and its faces.
func (s *Server) leave() error {
	s.grpc.Health.Shutdown()
	grace, cancel := context.WithTimeout(context.Background(), s.config.DrainGrace)
	defer cancel()
	s.node.drain(grace)
	err := s.node.Stop()
	s.stopOthers()
	s.stopFaces()
	return errors.Join(err, s.node.store.Close())
}

// stopFaces lets calls under way end, and cuts those that do not.
func (s *Server) stopFaces() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	cut := context.AfterFunc(ctx, s.grpc.Stop)
	defer cut()
	s.grpc.GracefulStop()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // Shutdown has said what is wrong: callers did not end in time
	}
	s.debug.stop(ctx)
}

// wrap names the listener that failed; that it was closed is no failure.
func wrap(name string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

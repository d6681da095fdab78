package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/httpapi"
	"github.com/carillonhq/carillon/server/internal/page"
	"github.com/carillonhq/carillon/server/store"
)

// Server is a node with its listeners.
type Server struct {
	node      *Node
	config    Config
	log       *slog.Logger
	listeners []*listener
	leaveBy   chan context.Context // to Run, from Leave
	left      chan struct{}        // closed when Run has ended
	fault     error                // what Run has returned
}

// Limits of the HTTP listener; package httpapi limits bodies.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute // a call has 1 min
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 16 << 10
)

// New starts a node and listens. [Server.Run] serves the listeners and ends everything.
func New(c Config) (*Server, error) { return NewWithin(context.Background(), c) }

// NewWithin is New for as long as ctx lasts.
func NewWithin(ctx context.Context, c Config) (*Server, error) {
	s, err := bind(c)
	if err != nil {
		return nil, err
	}
	node, err := s.start(ctx)
	if err != nil {
		return nil, errors.Join(err, s.closeUnserved())
	}
	return s.begin(node)
}

// bind validates the configuration and listens.
func bind(c Config) (*Server, error) {
	c = c.withDefaults()
	if err := errors.Join(c.Validate(), c.Credentials.complete()); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	s := &Server{config: c, log: c.Log, leaveBy: make(chan context.Context, 1), left: make(chan struct{})}
	if err := s.listen(); err != nil {
		return nil, err
	}
	c.warnOfPlainStore()
	s.config.self = s.self()
	if isShared(c.Store) {
		if err := c.Credentials.reachable(s.config.self); err != nil {
			return nil, errors.Join(fmt.Errorf("configuration: %w", err), s.closeUnserved())
		}
	}
	return s, nil
}

// start starts the node, which joins its cluster.
func (s *Server) start(ctx context.Context) (*Node, error) {
	if err := s.config.Credentials.ready(); err != nil {
		return nil, err
	}
	return Start(ctx, s.config)
}

// begin serves a started node at the listeners.
func (s *Server) begin(node *Node) (*Server, error) {
	s.node = node
	if err := s.openListeners(); err != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		return nil, errors.Join(err, node.Close(now), s.closeUnserved())
	}
	return s, nil
}

// openListeners prepares the listeners to serve the node's scheduler.
func (s *Server) openListeners() error {
	o := s.grpcOptions()
	o.Cluster = grpcapi.NewClusterService(s.node.Cluster())
	if err := refuseOpen(s.node); err != nil {
		return err
	}
	gate, err := gateOf(s.node)
	if err != nil {
		return err
	}
	o.Access, o.Keys = gate, grpcapi.NewAccessService(noKeys{})
	if k := s.node.keeper; k != nil {
		o.Keys = grpcapi.NewAccessService(k)
	}
	o.Audit, o.Trail = s.node.Auditor(), grpcapi.NewAuditService(s.node.engine)
	service := grpcapi.NewService(s.node.Remote(), o)
	makers := map[string]func(*listener) error{
		"grpc":         func(d *listener) error { return s.listenGRPC(d, service, o.Cluster) },
		"http":         func(d *listener) error { return s.listenHTTP(d, service, &o) },
		"debug_listen": s.listenDebug,
		"healthz":      s.listenHealthz,
		"metrics":      s.listenMetrics,
		"dapr":         s.listenSidecars,
		"etcd":         s.listenTools,
	}
	for _, d := range s.listeners {
		if err := makers[d.name](d); err != nil {
			return err
		}
	}
	if err := doorOf(s.config.Store).open(s.dialed(s.GRPCAddr()), s.node.store.Meta()); err != nil {
		s.log.Warn("commands cannot find the node by the folder of its store, such as backup --live", "error", err)
	}
	return nil
}

// dialed returns the address at which a listener is reached from this machine.
func (s *Server) dialed(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && isAny(host) {
		return net.JoinHostPort("localhost", port)
	}
	return address
}

// listenGRPC serves Carillon's own API as gRPC.
func (s *Server) listenGRPC(d *listener, service *grpcapi.Service, cluster *grpcapi.ClusterService) error {
	o := s.grpcOptions()
	options := slices.Concat(s.node.peerSizes(o), s.node.tracedCalls(), s.config.Credentials.server())
	server := grpcapi.NewServer(service, options...)
	s.node.servePeers(server, o)
	s.node.serveFollow(server)
	d.overGRPC(server)
	faces := s.node.register(s.config.APIs, server)
	d.gone = func() {
		faces()
		cluster.Stop()
	}
	return nil
}

// listenHTTP serves Carillon's own API as REST.
func (s *Server) listenHTTP(d *listener, service *grpcapi.Service, api *grpcapi.Options) error {
	o := httpapi.Options{
		Logger:  s.log,
		Cluster: api.Cluster,
		Access:  api.Access, Authentication: strings.Join(s.config.ways(), ","),
		Keys:        api.Keys,
		Audit:       api.Audit,
		Trail:       api.Trail,
		Interceptor: service.Guard,
		Called:      s.node.Metrics().Called,
		Streams: httpapi.Streams{Events: service.Events(), Interceptor: service.GuardStream,
			Ended: s.node.Metrics().Streamed},
		Payloads: httpapi.Payloads{Store: service.Stored(), Service: service.Payloads(),
			Ended: s.node.Metrics().Streamed},
		Ready:          func(context.Context) error { return s.Ready() },
		Metrics:        s.node.Metrics().Handler(),
		AllowHost:      s.config.allowHost,
		TrustedOrigins: s.config.Browsers.TrustedOrigins,
	}
	if !s.config.Browsers.NoPage {
		shown, err := page.New()
		if err != nil {
			return err
		}
		o.Page = shown
	}
	handler, err := httpapi.New(service, o)
	if err != nil {
		return fmt.Errorf("configuration: trusted_origins: %w", err)
	}
	server := &http.Server{Handler: s.config.Credentials.overHTTP(s.node.tracedRequests(handler), s.refused),
		ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
	if clients := s.config.Credentials.clients(); clients != nil {
		server.TLSConfig = clients.HTTP
	}
	d.overHTTP(server, s.log)
	return nil
}

// Node returns the node, for a program that embeds it.
func (s *Server) Node() *Node { return s.node }

// Scheduler returns the node's scheduler, without a hop over the network.
func (s *Server) Scheduler() carillon.Scheduler { return s.node.Scheduler() }

// GRPCAddr returns the address of the gRPC listener; empty if there is none. So do the others.
func (s *Server) GRPCAddr() string { return s.address("grpc") }

// HTTPAddr returns the address of the HTTP listener.
func (s *Server) HTTPAddr() string { return s.address("http") }

// DebugAddr returns the address at which profiles are served.
func (s *Server) DebugAddr() string { return s.address("debug_listen") }

// SidecarsAddr returns the address of the listener for Dapr sidecars.
func (s *Server) SidecarsAddr() string { return s.address("dapr") }

// ToolsAddr returns the address of the listener for tools of Dapr's.
func (s *Server) ToolsAddr() string { return s.address("etcd") }

// HealthzAddr returns the address at which /healthz is served.
func (s *Server) HealthzAddr() string { return s.address("healthz") }

// MetricsAddr returns the address at which only metrics are served.
func (s *Server) MetricsAddr() string { return s.address("metrics") }

// Ready returns nil if the node can serve, otherwise why not.
func (s *Server) Ready() error {
	if c := s.config.Sidecars; c != nil && c.Busy != nil {
		if err := c.Busy(); err != nil {
			return err
		}
	}
	return s.healthy()
}

// healthy returns nil if the node can serve, or could if it were not busy before it admits sidecars.
func (s *Server) healthy() error {
	if c := s.config.Sidecars; c != nil && c.Ready != nil {
		if err := c.Ready(); err != nil {
			return err
		}
	}
	return s.node.Ready()
}

// Run serves until ctx ends, [Server.Leave] is called or a listener fails, then leaves in order. It must be
// called once, even to end a server that is not needed after all.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.left)
	s.fault = s.serveAll(ctx)
	return s.fault
}

// Leave has Run leave, and drain until ctx is done, in place of the configured time. It waits until Run
// has ended, and returns what that returns. It must be called once at most.
func (s *Server) Leave(ctx context.Context) error {
	s.leaveBy <- ctx
	<-s.left
	return s.fault
}

// serveAll is Run.
func (s *Server) serveAll(ctx context.Context) error {
	failed := make(chan error, len(s.listeners))
	for _, d := range s.listeners {
		go func() { failed <- d.run() }()
	}
	s.log.Info("node is up", append(s.addresses(), slog.String("store", store.Redact(s.config.Store)))...)
	if s.node.member != nil {
		s.node.member.Greet(ctx)
	}
	var err error
	var by context.Context
	running := len(s.listeners)
	select {
	case <-ctx.Done():
	case by = <-s.leaveBy:
	case err = <-failed:
		running--
	case <-s.node.Replaced():
		err = errReplaced
	case <-s.node.Moved():
		err = store.ErrMoved
	}
	if by == nil {
		s.log.Info("node is leaving", "grace", s.config.DrainGrace)
		grace, cancel := context.WithTimeout(context.Background(), s.config.DrainGrace)
		defer cancel()
		by = grace
	} else {
		s.log.Info("node is leaving")
	}
	err = errors.Join(err, s.depart(by))
	for range running {
		err = errors.Join(err, <-failed)
	}
	s.log.Info("node has left")
	return err
}

// depart drains the node until grace is done, then ends it and its listeners.
func (s *Server) depart(grace context.Context) error {
	for _, d := range s.listeners {
		if d.leaving != nil {
			d.leaving()
		}
	}
	s.node.drainAndLog(grace)
	err := errors.Join(doorOf(s.config.Store).close(), s.node.Stop())
	s.endListeners()
	return errors.Join(err, s.node.leave())
}

// endListeners lets running calls end, and cuts those that do not.
func (s *Server) endListeners() {
	ctx, cancel := s.node.stopping()
	defer cancel()
	for _, d := range s.listeners {
		d.stop(ctx)
	}
}

// Cluster returns the cluster that the node belongs to, even if it is alone.
func (s *Server) Cluster() carillon.Cluster { return s.node.Cluster() }

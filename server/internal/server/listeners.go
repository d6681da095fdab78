package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// listener is a listener and what serves it.
type listener struct {
	name  string // of its address in the configuration
	at    net.Listener
	serve func(net.Listener) error
	// leaving tells callers that the node is about to leave. Nil: they are not told.
	leaving func()
	// gone ends what would stay open by itself, after the node has stopped. Nil: nothing does.
	gone func()
	// end lets running calls end until ctx does, then cuts them.
	end func(ctx context.Context)
}

// endpoints returns the configured addresses to listen on, in the order in which their listeners are ended.
func (c Config) endpoints() []endpoint {
	all := []endpoint{{name: "grpc", address: c.GRPC, open: c.Credentials.known() || c.keyed()}}
	if c.Sidecars != nil {
		all = append(all, endpoint{name: "dapr", address: c.Sidecars.Address, open: true})
	}
	if c.Monitoring.Tools != nil {
		all = append(all, endpoint{name: "etcd", address: c.Monitoring.Tools.Address, open: true})
	}
	all = append(all,
		endpoint{name: "http", address: c.HTTP, open: c.Credentials.knownOverHTTP() || c.keyed()},
		endpoint{name: "debug_listen", address: c.Monitoring.Debug},
		endpoint{name: "metrics", address: c.Monitoring.Metrics, open: true},
		endpoint{name: "healthz", address: c.Monitoring.Healthz, open: true})
	var used []endpoint
	for _, l := range all {
		if l.address != "" && l.address != None {
			used = append(used, l)
		}
	}
	return used
}

// keyed reports whether callers must show who they are, and what they show is encrypted on its way.
func (c Config) keyed() bool { return c.judged() && c.Credentials.clients() != nil }

// endpoint is one address of the configuration.
type endpoint struct {
	name, address string
	open          bool // may be reachable from other machines
}

// listen opens the listeners before the store is opened: a port in use is the most common mistake.
func (s *Server) listen() error {
	for _, l := range s.config.endpoints() {
		at, err := net.Listen("tcp", l.address)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", l.name, err), s.closeUnserved())
		}
		s.listeners = append(s.listeners, &listener{name: l.name, at: at})
	}
	return nil
}

// closeUnserved closes listeners that were never served.
func (s *Server) closeUnserved() error {
	var faults []error
	for _, d := range s.listeners {
		if d.gone != nil {
			d.gone()
		}
		faults = append(faults, d.at.Close())
	}
	return errors.Join(faults...)
}

// address returns the address of the listener with a name; empty if there is none.
func (s *Server) address(name string) string {
	for _, d := range s.listeners {
		if d.name == name {
			return d.at.Addr().String()
		}
	}
	return ""
}

// addresses returns the names and addresses of all listeners, for the log.
func (s *Server) addresses() []any {
	var pairs []any
	for _, d := range s.listeners {
		pairs = append(pairs, slog.String(d.name, d.at.Addr().String()))
	}
	return pairs
}

// run serves the listener until it is ended.
func (d *listener) run() error { return wrap(d.name, d.serve(d.at)) }

// stop ends the listener.
func (d *listener) stop(ctx context.Context) {
	if d.gone != nil {
		d.gone()
	}
	d.end(ctx)
}

// overHTTP makes d serve HTTP.
func (d *listener) overHTTP(server *http.Server, log *slog.Logger) {
	server.ReadHeaderTimeout, server.IdleTimeout = readHeaderTimeout, idleTimeout
	server.MaxHeaderBytes = maxHeaderBytes
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // errors of clients
	new(unusedConns).attach(server)
	d.serve = server.Serve
	if server.TLSConfig != nil {
		d.serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	d.end = func(ctx context.Context) {
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // Shutdown's error says only that calls did not end in time
		}
	}
}

// overGRPC makes d serve gRPC.
func (d *listener) overGRPC(server *grpcapi.Server) {
	d.serve, d.leaving = server.Serve, server.Health.Shutdown
	d.end = func(ctx context.Context) {
		cut := context.AfterFunc(ctx, server.Stop)
		defer cut()
		server.GracefulStop()
	}
}

// wrap adds the name of the listener that failed; a closed listener is no failure, also if it was closed
// before it was served.
func wrap(name string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

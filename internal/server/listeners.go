package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// listener is a listener and what serves it.
type listener struct {
	name  string // of its address in the configuration
	at    net.Listener
	serve func(net.Listener) error
	// leaving tells callers that the node is about to leave. Nil: they are not told.
	leaving func()
	// gone ends what stays open of itself, after the node has stopped. Nil: nothing does.
	gone func()
	// end lets calls under way end until ctx does, then cuts them.
	end func(ctx context.Context)
}

// endpoints are the addresses of the configuration at which is listened, in the order in which they are ended.
func (c Config) endpoints() []endpoint {
	all := []endpoint{{name: "grpc", address: c.GRPC}}
	if c.Sidecars != nil {
		all = append(all, endpoint{name: "dapr", address: c.Sidecars.Address, open: true})
	}
	all = append(all, endpoint{name: "http", address: c.HTTP}, endpoint{name: "debug_listen", address: c.Debug},
		endpoint{name: "metrics", address: c.Metrics, open: true}, endpoint{name: "healthz", address: c.Healthz, open: true})
	var used []endpoint
	for _, l := range all {
		if l.address != "" && l.address != None {
			used = append(used, l)
		}
	}
	return used
}

// endpoint is one address of the configuration.
type endpoint struct {
	name, address string
	open          bool // it may be reachable from other machines
}

// listen opens the listeners, before the store is opened: a port that is taken is the most common mistake.
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

// closeUnserved closes what was never served.
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

// address is where the listener of the name is listened for; empty if it is not.
func (s *Server) address(name string) string {
	for _, d := range s.listeners {
		if d.name == name {
			return d.at.Addr().String()
		}
	}
	return ""
}

// addresses are the names and addresses of all listeners, for the log.
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

// overHTTP makes it a listener for HTTP.
func (d *listener) overHTTP(server *http.Server, log *slog.Logger) {
	server.ReadHeaderTimeout, server.IdleTimeout, server.MaxHeaderBytes = readHeaderTimeout, idleTimeout, maxHeaderBytes
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // what clients do wrong
	new(fresh).attach(server)
	d.serve = server.Serve
	d.end = func(ctx context.Context) {
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // Shutdown has said what is wrong: callers did not end in time
		}
	}
}

// grpcServer is what a listener for gRPC needs of one.
type grpcServer interface {
	Serve(at net.Listener) error
	GracefulStop()
	Stop()
}

// overGRPC makes it a listener for gRPC.
func (d *listener) overGRPC(server grpcServer, leaving func()) {
	d.serve, d.leaving = server.Serve, leaving
	d.end = func(ctx context.Context) {
		cut := context.AfterFunc(ctx, server.Stop)
		defer cut()
		server.GracefulStop()
	}
}

// wrap names the listener that failed; that it was closed is no failure.
func wrap(name string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

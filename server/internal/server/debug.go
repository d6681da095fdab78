package server

import (
	"context"
	"net"
	"net/http"

	"github.com/carillonhq/carillon/server/internal/profiling"
)

// listenDebug serves profiles of the process on a listener of its own, since they are for operators, not for
// users.
func (s *Server) listenDebug(d *listener) error {
	ctx, end := context.WithCancel(context.Background())
	d.overHTTP(&http.Server{ //nolint:gosec // overHTTP sets its limits
		Handler:     s.config.namedOnly(profiling.Handler()),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}, s.log)
	shutdown := d.end
	d.end = func(ctx context.Context) {
		end() // running profiles are sent with what they have
		shutdown(ctx)
	}
	return nil
}

// namedOnly refuses requests whose Host is not a name of the node.
func (c Config) namedOnly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.allowHost(r.Host) {
			http.Error(w, "the Host is not a name of this node", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

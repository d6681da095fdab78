package server

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc/peer"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/profiling"
)

// listenDebug serves profiles of the process on a listener of its own, since they are for operators, not for
// users.
func (s *Server) listenDebug(d *listener) error {
	ctx, end := context.WithCancel(context.Background())
	d.overHTTP(&http.Server{ //nolint:gosec // overHTTP sets its limits
		Handler:     s.namedOnly(s.refused, ownPages(s.refused, profiling.Handler())),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}, s.log)
	shutdown := d.end
	d.end = func(ctx context.Context) {
		end() // running profiles are sent with what they have
		shutdown(ctx)
	}
	return nil
}

// namedOnly refuses requests whose Host is not a name of the node. refused is told of them, nil: nobody is.
func (s *Server) namedOnly(refused func(*http.Request, error), handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.config.allowHost(r.Host) {
			refuse(w, r, refused, "Host", "the Host is not a name of this node")
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// ownPages refuses what a page of another origin asks for, also by GET: a profile costs its node something,
// whether its answer can be read or not. refused is told of it.
func ownPages(refused func(*http.Request, error), handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if site == "same-origin" || site == "none" || site == "" && r.Header.Get("Origin") == "" {
			handler.ServeHTTP(w, r)
			return
		}
		refuse(w, r, refused, "Origin", "a page of another origin may not ask for profiles")
	})
}

// refuse answers a request that is refused for one of its headers.
func refuse(w http.ResponseWriter, r *http.Request, refused func(*http.Request, error), header, why string) {
	if refused != nil {
		refused(r, carillon.Errorf(carillon.PermissionDenied, header, "%s", why))
	}
	http.Error(w, why, http.StatusForbidden)
}

// refused has it recorded that a request was refused, if anything is. The node is there.
func (s *Server) refused(r *http.Request, err error) {
	if t := s.node.trail; t != nil {
		t.Refused(peer.NewContext(r.Context(), &peer.Peer{Addr: address(r.RemoteAddr)}), "", nil, err)
	}
}

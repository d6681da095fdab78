package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/carillonhq/carillon/internal/profiling"
)

// debugFace serves profiles of the process on a listener of its own: they are for who operates the node, not for who uses it.
// nil is none.
type debugFace struct {
	at   net.Listener
	http *http.Server
	end  context.CancelFunc // ends the profiles that are under way
}

// listenDebug listens if there is to be such a face.
func listenDebug(c *Config, log *slog.Logger) (*debugFace, error) {
	if c.Debug == "" {
		return nil, nil
	}
	at, err := net.Listen("tcp", c.Debug)
	if err != nil {
		return nil, fmt.Errorf("debug_listen: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	profiles := profiling.Handler()
	return &debugFace{at: at, end: end, http: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !c.allowHost(r.Host) {
				http.Error(w, "the Host is not a name of this node", http.StatusForbidden)
				return
			}
			profiles.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// serve serves until stop.
func (d *debugFace) serve() error { return wrap("debug_listen", d.http.Serve(d.at)) }

// stop ends the profiles that are under way, lets them go out until ctx ends, and closes the listener.
func (d *debugFace) stop(ctx context.Context) {
	if d == nil {
		return
	}
	d.end()
	if err := d.http.Shutdown(ctx); err != nil {
		_ = d.http.Close() // Shutdown has said what is wrong
	}
}

// close closes a listener that was never served.
func (d *debugFace) close() error {
	if d == nil {
		return nil
	}
	d.end()
	return d.at.Close()
}

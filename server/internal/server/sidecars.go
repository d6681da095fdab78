package server

import (
	"net/http"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// Sidecars is a gRPC listener for Dapr sidecars. Of Carillon's own services it serves only health: whoever
// may use it, by a certificate or because the network is trusted, may do what Dapr's protocol can and no
// more.
type Sidecars struct {
	// Address to listen on, host:port; port 0 picks a free one. It may be reachable from other machines
	// without [Config.Insecure]: sidecars expect that, and Options decide who is admitted.
	Address string
	// Options of the listener, such as credentials. Default: plain text.
	Options []grpc.ServerOption
	// Ready returns nil if sidecars can be admitted, otherwise why not. Default: they always can.
	Ready func() error
	// Busy returns what the node does before it admits sidecars; nil: nothing. A node that is busy is not
	// ready, but healthy: /healthz is Dapr's probe of liveness too, which must not end a node at work. Options
	// refuse the calls meanwhile. Default: it admits them from the start.
	Busy func() error
	// API is the service.
	API API
}

// perMessage is the room that a job of the largest payload and metadata may need besides: names, texts and
// framing.
const perMessage = 64 << 10

// minMessage is the lowest limit on messages.
const minMessage = 4 << 20

// maxMessage returns the most bytes of a message to the node: any job that it accepts fits. Answers have no
// limit, since a list of jobs for a sidecar is one message.
func maxMessage(l carillon.Bounds) int {
	return max(minMessage, l.Payload+l.Metadata+l.Labels+perMessage)
}

// listenSidecars serves Dapr sidecars.
func (s *Server) listenSidecars(d *listener) error {
	c := s.config.Sidecars
	o := APIOptions(grpcapi.Options{Logger: s.log, Now: s.config.Now, MaxMessage: maxMessage(s.config.Limits),
		Observer: s.node.Metrics()})
	server := grpcapi.NewFrame(o, append(s.node.tracedCalls(), c.Options...)...)
	d.overGRPC(server)
	d.gone = s.node.register([]API{c.API}, server)
	return nil
}

// listenHealthz answers /healthz as Dapr's programs do: 200 when the node can serve or is busy, and 503 when
// it cannot, without a body. The log says why.
func (s *Server) listenHealthz(d *listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.healthy(); err != nil {
			s.log.Debug("healthz: not ready", "reason", err)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	d.overHTTP(&http.Server{Handler: s.ifNamed(d, s.refused, mux), ReadTimeout: readTimeout,
		WriteTimeout: readTimeout}, s.log)
	return nil
}

// listenMetrics serves the metrics at every path, as Dapr's programs do: some are scraped at /, some at
// /metrics.
func (s *Server) listenMetrics(d *listener) error {
	handler := s.ifNamed(d, s.refused, s.node.Metrics().Handler())
	d.overHTTP(&http.Server{Handler: handler, ReadTimeout: readTimeout, WriteTimeout: readTimeout}, s.log)
	return nil
}

// ifNamed refuses requests under foreign names if the listener is on loopback: there only a browser page that
// rebinds its own name would use one. A listener on a network is reached under names that the node does not
// know.
func (s *Server) ifNamed(d *listener, refused func(*http.Request, error), handler http.Handler) http.Handler {
	if OnLoopback(hostOf(d.at.Addr().String())) {
		return s.namedOnly(refused, handler)
	}
	return handler
}

package server

import (
	"google.golang.org/grpc"

	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// Tools is a gRPC listener for tools that look for an etcd where Dapr's scheduler is. Of Carillon's own
// services it serves none, not even health. Nobody is authenticated there, as with Dapr's.
type Tools struct {
	// Address to listen on, host:port; port 0 picks a free one. It may be reachable from other machines
	// without [Config.Insecure].
	Address string
	// API is the service.
	API API
	// Options are those of the listener that the service needs.
	Options []grpc.ServerOption
}

// listenTools serves tools of Dapr's.
func (s *Server) listenTools(d *listener) error {
	o := APIOptions(grpcapi.Options{Logger: s.log, Now: s.config.Now, NoHealth: true})
	server := grpcapi.NewFrame(o, s.config.Monitoring.Tools.Options...)
	d.overGRPC(server)
	d.gone = s.node.register([]API{s.config.Monitoring.Tools.API}, server)
	return nil
}

package server

import (
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/grpcapi"
)

// API is a service besides Carillon's own on a gRPC listener. It registers itself for a node at work and returns what ends
// its streams when the node leaves: after the hub has ended its sessions, before the listener is closed. nil is nothing.
// What a face links is linked by those programs only that name it.
type API func(n *Node, r grpc.ServiceRegistrar) (stop func())

// Remote is the node's scheduler, for callers elsewhere.
func (n *Node) Remote() carillon.Scheduler { return n.schedulerWith(n.relayed(n.hub)) }

// Hub is where consumers of the node's runs connect.
func (n *Node) Hub() *dispatch.Hub { return n.hub }

// How connections are kept that serve faces. A sidecar of Dapr holds runs by its stream: one that is cut has them delivered
// twice, so no connection is asked to go for its age, and dead peers are found as fast as by Dapr's own scheduler.
const (
	apiPingInterval = 3 * time.Second
	apiPingTimeout  = 5 * time.Second
)

// grpcOptions are those of the gRPC listener.
func (s *Server) grpcOptions() grpcapi.Options {
	o := grpcapi.Options{Logger: s.log, Now: s.config.Now, MaxMessage: maxMessage(s.config.Limits)}
	if len(s.config.APIs) > 0 {
		o = APIOptions(o)
	}
	return o
}

// APIOptions is o with connections kept as faces need it.
func APIOptions(o grpcapi.Options) grpcapi.Options {
	o.ConnectionAge, o.PingInterval, o.PingTimeout = -1, apiPingInterval, apiPingTimeout
	return o
}

// register puts the faces on a gRPC server; stop ends them.
func (n *Node) register(faces []API, r grpc.ServiceRegistrar) (stop func()) {
	var stops []func()
	for _, f := range faces {
		if s := f(n, r); s != nil {
			stops = append(stops, s)
		}
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

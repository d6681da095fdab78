package server

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// API is a service besides Carillon's own on a gRPC listener. It registers itself for a running node and
// returns a function that ends its streams when the node leaves: after the hub has ended its sessions, before
// the listener is closed. nil: nothing to end. A program links only the APIs that it names.
type API func(n *Node, r grpc.ServiceRegistrar) (stop func())

// Remote returns the node's scheduler for callers in other processes.
func (n *Node) Remote() carillon.Scheduler { return n.schedulerWith(n.relayed(n.hub)) }

// Hub returns the hub that consumers of the node's runs connect to.
func (n *Node) Hub() *dispatch.Hub { return n.hub }

// EachJob calls f with every job of the namespace, or of all namespaces if it is empty, whose name begins
// with the prefix: one call at a time, in no order, until one fails. Jobs are read from the store, wherever
// their partitions are.
func (n *Node) EachJob(ctx context.Context, namespace, prefix string, f func(*carillon.Job) error) error {
	return n.engine.EachJob(ctx, namespace, prefix, f)
}

// NameLimits puts limits of Dapr's actor types in force until end is called, over all nodes of the cluster.
func (n *Node) NameLimits(limits []delivery.NamedLimit) (end func(), err error) {
	return n.engine.NameLimits(limits)
}

// SettleAll has the streams of a sidecar settle on all nodes of the cluster; see [cluster.Settler].
func (n *Node) SettleAll(ctx context.Context, from string, told bool) {
	if n.member != nil {
		n.member.SettleAll(ctx, from, told)
	} else if f := n.settler.Load(); f != nil {
		(*f)(ctx, from, told)
	}
}

// OnSettle sets what has the streams of this node settle.
func (n *Node) OnSettle(f cluster.Settler) {
	n.settler.Store(&f)
	if n.member != nil {
		n.member.OnSettle(f)
	}
}

// LimitTallies returns how these limits stand in the partitions of this node.
func (n *Node) LimitTallies() []partition.Tally { return n.engine.LimitTallies() }

// Keepalive of connections to further APIs. A Dapr sidecar holds runs by its stream: if that is cut, they are
// delivered twice. So no connection is closed for its age, and dead peers are found as fast as by Dapr's own
// scheduler.
const (
	apiPingInterval = 3 * time.Second
	apiPingTimeout  = 5 * time.Second
)

// grpcOptions returns the options of the gRPC listener.
func (s *Server) grpcOptions() grpcapi.Options {
	o := grpcapi.Options{Logger: s.log, Now: s.config.Now, MaxMessage: maxMessage(s.config.Limits),
		Observer: s.node.Metrics(), Lasting: []string{peerv1.FollowService_Follow_FullMethodName},
		ByReference: s.config.Payloads != nil}
	if len(s.config.APIs) > 0 {
		o = APIOptions(o)
	}
	return o
}

// APIOptions returns o with the keepalive that further APIs need.
func APIOptions(o grpcapi.Options) grpcapi.Options {
	o.ConnectionAge, o.PingInterval, o.PingTimeout = -1, apiPingInterval, apiPingTimeout
	return o
}

// register registers the APIs on a gRPC server; stop ends them.
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

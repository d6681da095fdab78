package daprapi

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
)

// WatchHosts implements the rpc: it says where the schedulers are, at once and whenever that changes.
func (s *Service) WatchHosts(_ *pb.WatchHostsRequest, stream grpc.ServerStreamingServer[pb.WatchHostsResponse]) error {
	ctx := stream.Context()
	for {
		var addresses []string
		var changed <-chan struct{}
		if s.options.Hosts != nil {
			addresses, changed = s.options.Hosts()
		}
		if p, ok := peer.FromContext(ctx); ok && len(addresses) == 0 && p.LocalAddr != nil {
			addresses = []string{p.LocalAddr.String()}
		}
		m := &pb.WatchHostsResponse{}
		for _, a := range addresses {
			m.Hosts = append(m.Hosts, &pb.Host{Address: a})
		}
		if err := stream.Send(m); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.left:
			return leaving()
		}
	}
}

func leaving() error {
	return status.Error(codes.Unavailable, "this node is leaving: connect to another")
}

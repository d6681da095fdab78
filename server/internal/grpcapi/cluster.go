package grpcapi

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// ClusterService is carillon.v1.ClusterService over a Cluster.
type ClusterService struct {
	pb.UnsafeClusterServiceServer // a new call fails to compile until it is here

	cluster carillon.Cluster

	leave sync.Once
	left  chan struct{} // closed by Stop
}

var _ pb.ClusterServiceServer = (*ClusterService)(nil)

// NewClusterService is the service over c.
func NewClusterService(c carillon.Cluster) *ClusterService {
	return &ClusterService{cluster: c, left: make(chan struct{})}
}

// Stop ends the streams of WatchNodes, which else go on for as long as their callers like.
func (s *ClusterService) Stop() { s.leave.Do(func() { close(s.left) }) }

// GetCluster implements the rpc.
func (s *ClusterService) GetCluster(ctx context.Context, _ *pb.GetClusterRequest) (*pb.Cluster, error) {
	status, err := s.cluster.ClusterStatus(ctx)
	return wire.ClusterToProto(&status), err
}

// DrainNode implements the rpc.
func (s *ClusterService) DrainNode(ctx context.Context,
	m *pb.DrainNodeRequest) (*pb.DrainNodeResponse, error) {
	if m.GetId() == "" {
		return nil, invalid("id", "must not be empty")
	}
	return &pb.DrainNodeResponse{}, s.cluster.DrainNode(ctx, m.GetId())
}

// Rebalance implements the rpc.
func (s *ClusterService) Rebalance(ctx context.Context,
	_ *pb.RebalanceRequest) (*pb.RebalanceResponse, error) {
	return &pb.RebalanceResponse{}, s.cluster.Rebalance(ctx)
}

// errLeaving ends a stream whose node leaves.
var errLeaving = carillon.Errorf(carillon.Unavailable, "", "this node is leaving: ask another")

// WatchNodes implements the rpc.
func (s *ClusterService) WatchNodes(_ *pb.WatchNodesRequest,
	stream grpc.ServerStreamingServer[pb.WatchNodesResponse]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-s.left:
			cancel(errLeaving)
		case <-ctx.Done():
		}
	}()
	err := s.cluster.WatchNodes(ctx, func(nodes []carillon.Node) error {
		return stream.Send(&pb.WatchNodesResponse{Nodes: wire.NodesToProto(nodes)})
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// ListQueues implements the rpc.
func (s *ClusterService) ListQueues(ctx context.Context,
	m *pb.ListQueuesRequest) (*pb.ListQueuesResponse, error) {
	page, err := s.cluster.ListQueues(ctx, wire.QueueQueryFromProto(m))
	return &pb.ListQueuesResponse{Queues: wire.QueuesToProto(page.Queues), NextPageToken: page.NextPageToken,
		Unheard: page.Unheard}, err
}

// PauseQueue implements the rpc.
func (s *ClusterService) PauseQueue(ctx context.Context,
	m *pb.PauseQueueRequest) (*pb.PauseQueueResponse, error) {
	c, err := s.cluster.PauseQueue(ctx, queueKey(m), m.GetNote())
	return &pb.PauseQueueResponse{Pause: wire.QueuePauseToProto(c.Pause), Unheard: c.Unheard}, err
}

// ResumeQueue implements the rpc.
func (s *ClusterService) ResumeQueue(ctx context.Context,
	m *pb.ResumeQueueRequest) (*pb.ResumeQueueResponse, error) {
	c, err := s.cluster.ResumeQueue(ctx, queueKey(m))
	return &pb.ResumeQueueResponse{Ended: wire.QueuePauseToProto(c.Ended), Unheard: c.Unheard}, err
}

// PurgeQueue implements the rpc.
func (s *ClusterService) PurgeQueue(ctx context.Context,
	m *pb.PurgeQueueRequest) (*pb.PurgeQueueResponse, error) {
	p, err := s.cluster.PurgeQueue(ctx, queueKey(m), carillon.PurgeOptions{DryRun: m.GetDryRun()})
	return &pb.PurgeQueueResponse{Purged: int64(p.Runs), More: p.More}, err
}

// queueKey returns the key of the queue that a request names.
func queueKey(m interface {
	GetNamespace() string
	GetKind() string
	GetName() string
}) carillon.QueueKey {
	return carillon.QueueKey{Namespace: m.GetNamespace(), Kind: m.GetKind(), Name: m.GetName()}
}

// ListWorkers implements the rpc.
func (s *ClusterService) ListWorkers(ctx context.Context,
	m *pb.ListWorkersRequest) (*pb.ListWorkersResponse, error) {
	page, err := s.cluster.ListWorkers(ctx, wire.WorkerQueryFromProto(m))
	return &pb.ListWorkersResponse{Workers: wire.WorkersToProto(page.Workers), NextPageToken: page.NextPageToken,
		Unheard: page.Unheard}, err
}

// ListIngests implements the rpc.
func (s *ClusterService) ListIngests(ctx context.Context,
	m *pb.ListIngestsRequest) (*pb.ListIngestsResponse, error) {
	page, err := s.cluster.ListIngests(ctx, wire.IngestQueryFromProto(m))
	return &pb.ListIngestsResponse{Ingests: wire.IngestsToProto(page.Ingests), NextPageToken: page.NextPageToken,
		Unheard: page.Unheard}, err
}

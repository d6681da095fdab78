package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
)

// maintenanceServer says how the node is, and takes orders to tidy up, which its store does by itself.
type maintenanceServer struct {
	pb.UnsafeMaintenanceServer
	s *Service
}

// Alarm implements the rpc. There are none.
func (m maintenanceServer) Alarm(_ context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if r.GetAction() == pb.AlarmRequest_ACTIVATE {
		return nil, unsupported("raising an alarm", "the node's metrics and its log say what is wrong")
	}
	return &pb.AlarmResponse{Header: m.s.header(0)}, nil
}

// Status implements the rpc.
func (m maintenanceServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	h := m.s.header(0)
	revision := uint64(h.Revision)
	return &pb.StatusResponse{Header: h, Version: version.Version, Leader: h.MemberId, RaftTerm: h.RaftTerm,
		RaftIndex: revision, RaftAppliedIndex: revision}, nil
}

// Defragment implements the rpc. The store does so as it goes.
func (m maintenanceServer) Defragment(context.Context,
	*pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	return &pb.DefragmentResponse{Header: m.s.header(0)}, nil
}

// Hash implements the rpc.
func (maintenanceServer) Hash(context.Context, *pb.HashRequest) (*pb.HashResponse, error) {
	return nil, unsupported("a hash", "compare what a range answers with")
}

// HashKV implements the rpc.
func (maintenanceServer) HashKV(context.Context, *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	return nil, unsupported("a hash", "compare what a range answers with")
}

// Snapshot implements the rpc.
func (maintenanceServer) Snapshot(*pb.SnapshotRequest, pb.Maintenance_SnapshotServer) error {
	return unsupported("a snapshot", "back up the node's store, or export its jobs with dapr scheduler export")
}

// MoveLeader implements the rpc.
func (maintenanceServer) MoveLeader(context.Context, *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	return nil, unsupported("another leader", "there is none: use carillon cluster drain to move jobs off a node")
}

// Downgrade implements the rpc.
func (maintenanceServer) Downgrade(context.Context, *pb.DowngradeRequest) (*pb.DowngradeResponse, error) {
	return nil, unsupported("a downgrade", "start the version that you want")
}

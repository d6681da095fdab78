package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// leaseServer shows the leases that keep the keys of schedulers, one for each node. No other key has one.
type leaseServer struct {
	pb.UnsafeLeaseServer
	s *Service
}

// leaseSeconds is the time to live that is shown of a living node's lease, as schedulers of Dapr have it.
const leaseSeconds = 20

// errNoLease is about leases of others.
var errNoLease = status.Error(codes.Unimplemented, "leases are only those of the schedulers' own keys, "+
	daprrecord.LeadershipPrefix+"…: no key of another can have one here")

// LeaseGrant implements the rpc.
func (leaseServer) LeaseGrant(context.Context, *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return nil, errNoLease
}

// LeaseKeepAlive implements the rpc.
func (leaseServer) LeaseKeepAlive(pb.Lease_LeaseKeepAliveServer) error { return errNoLease }

// LeaseLeases implements the rpc.
func (l leaseServer) LeaseLeases(ctx context.Context,
	_ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	nodes, err := l.s.nodesNow(ctx)
	if err != nil {
		return nil, err
	}
	m := &pb.LeaseLeasesResponse{Header: l.s.header(0)}
	for _, n := range nodes {
		m.Leases = append(m.Leases, &pb.LeaseStatus{ID: l.s.revoked.leaseOf(n.ID)})
	}
	return m, nil
}

// LeaseRevoke implements the rpc. A scheduler whose lease is gone takes another: so does a node, at once.
func (l leaseServer) LeaseRevoke(ctx context.Context,
	m *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	node, err := l.holder(ctx, m.GetID())
	if err != nil {
		return nil, err
	}
	l.s.revoked.renew(node)
	return &pb.LeaseRevokeResponse{Header: l.s.header(0)}, nil
}

// LeaseTimeToLive implements the rpc.
func (l leaseServer) LeaseTimeToLive(ctx context.Context,
	m *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	answer := &pb.LeaseTimeToLiveResponse{Header: l.s.header(0), ID: m.GetID(), TTL: -1}
	node, err := l.holder(ctx, m.GetID())
	switch {
	case status.Code(err) == codes.NotFound:
		return answer, nil
	case err != nil:
		return nil, err
	}
	answer.TTL, answer.GrantedTTL = leaseSeconds, leaseSeconds
	if m.GetKeys() {
		answer.Keys = [][]byte{[]byte(daprrecord.LeadershipPrefix + node)}
	}
	return answer, nil
}

// holder returns the node with the lease.
func (l leaseServer) holder(ctx context.Context, id int64) (string, error) {
	nodes, err := l.s.nodesNow(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if l.s.revoked.leaseOf(n.ID) == id {
			return n.ID, nil
		}
	}
	return "", rpctypes.ErrGRPCLeaseNotFound
}

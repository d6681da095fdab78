package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// clusterServer shows the nodes.
type clusterServer struct {
	pb.UnsafeClusterServer
	s *Service
}

// MemberList implements the rpc. The address is known of this node only.
func (c clusterServer) MemberList(ctx context.Context,
	_ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	nodes, err := c.s.nodesNow(ctx)
	if err != nil {
		return nil, err
	}
	m := &pb.MemberListResponse{Header: c.s.header(0)}
	for _, n := range nodes {
		member := &pb.Member{ID: numberOf(n.ID), Name: n.ID}
		if n.ID == c.s.options.ID && c.s.options.Address != "" {
			member.ClientURLs = []string{"http://" + c.s.options.Address}
		}
		m.Members = append(m.Members, member)
	}
	return m, nil
}

// errMembers is about changes of the members.
func errMembers() error {
	return unsupported("changing the members", "start or stop nodes")
}

// MemberAdd implements the rpc.
func (clusterServer) MemberAdd(context.Context,
	*pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	return nil, errMembers()
}

// MemberRemove implements the rpc.
func (clusterServer) MemberRemove(context.Context,
	*pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	return nil, errMembers()
}

// MemberUpdate implements the rpc.
func (clusterServer) MemberUpdate(context.Context,
	*pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	return nil, errMembers()
}

// MemberPromote implements the rpc.
func (clusterServer) MemberPromote(context.Context,
	*pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	return nil, errMembers()
}

package grpcapi

import (
	"context"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// GetNamespace implements the rpc.
func (s *Service) GetNamespace(ctx context.Context, m *pb.GetNamespaceRequest) (*pb.Namespace, error) {
	ns, err := s.scheduler.GetNamespace(ctx, namespace(m.GetName()))
	return wire.NamespaceToProto(&ns), err
}

// PutNamespace implements the rpc.
func (s *Service) PutNamespace(ctx context.Context, m *pb.PutNamespaceRequest) (*pb.Namespace, error) {
	n := wire.NamespaceFromProto(m)
	n.Name = namespace(n.Name)
	ns, err := s.scheduler.PutNamespace(ctx, n)
	return wire.NamespaceToProto(&ns), err
}

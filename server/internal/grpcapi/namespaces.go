package grpcapi

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// GetNamespace implements the rpc.
func (s *Service) GetNamespace(ctx context.Context, m *pb.GetNamespaceRequest) (*pb.Namespace, error) {
	return namespaceReply(s.scheduler.GetNamespace(ctx, namespace(m.GetName())))
}

// PutNamespace implements the rpc.
func (s *Service) PutNamespace(ctx context.Context, m *pb.PutNamespaceRequest) (*pb.Namespace, error) {
	n := wire.NamespaceFromProto(m)
	n.Name = namespace(n.Name)
	return namespaceReply(s.scheduler.PutNamespace(ctx, n))
}

func namespaceReply(n carillon.Namespace, err error) (*pb.Namespace, error) {
	if err != nil {
		return nil, err
	}
	return wire.NamespaceToProto(&n), nil
}

package grpcapi

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// StartBackfill implements the rpc. Without a last time the stretch ends now, by the node's clock.
func (s *Service) StartBackfill(ctx context.Context, m *pb.StartBackfillRequest) (*pb.Backfill, error) {
	k, err := key(m.GetNamespace(), m.GetName())
	if err != nil {
		return nil, err
	}
	spec, err := wire.SpecFromProto(m)
	if err != nil {
		return nil, err
	}
	if m.GetTo() == nil {
		spec.To = s.options.Now()
	}
	return backfillReply(s.scheduler.StartBackfill(ctx, k, spec))
}

// ListBackfills implements the rpc.
func (s *Service) ListBackfills(ctx context.Context, m *pb.ListBackfillsRequest) (*pb.ListBackfillsResponse, error) {
	k, err := key(m.GetNamespace(), m.GetName())
	if err != nil {
		return nil, err
	}
	backfills, err := s.scheduler.ListBackfills(ctx, k)
	if err != nil {
		return nil, err
	}
	return &pb.ListBackfillsResponse{Backfills: wire.BackfillsToProto(backfills)}, nil
}

// GetBackfill implements the rpc.
func (s *Service) GetBackfill(ctx context.Context, m *pb.GetBackfillRequest) (*pb.Backfill, error) {
	return backfillReply(s.scheduler.GetBackfill(ctx, namespace(m.GetNamespace()), m.GetId()))
}

// CancelBackfill implements the rpc.
func (s *Service) CancelBackfill(ctx context.Context, m *pb.CancelBackfillRequest) (*pb.Backfill, error) {
	return backfillReply(s.scheduler.CancelBackfill(ctx, namespace(m.GetNamespace()), m.GetId()))
}

func backfillReply(b carillon.Backfill, err error) (*pb.Backfill, error) {
	if err != nil {
		return nil, err
	}
	return wire.BackfillToProto(&b), nil
}

package grpcapi

import (
	"context"

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
	b, err := s.scheduler.StartBackfill(ctx, k, spec)
	return wire.BackfillToProto(&b), err
}

// ListBackfills implements the rpc.
func (s *Service) ListBackfills(ctx context.Context,
	m *pb.ListBackfillsRequest) (*pb.ListBackfillsResponse, error) {
	backfills, err := onJob(ctx, m, s.scheduler.ListBackfills)
	return &pb.ListBackfillsResponse{Backfills: wire.BackfillsToProto(backfills)}, err
}

// GetBackfill implements the rpc.
func (s *Service) GetBackfill(ctx context.Context, m *pb.GetBackfillRequest) (*pb.Backfill, error) {
	b, err := s.scheduler.GetBackfill(ctx, namespace(m.GetNamespace()), m.GetId())
	return wire.BackfillToProto(&b), err
}

// CancelBackfill implements the rpc.
func (s *Service) CancelBackfill(ctx context.Context, m *pb.CancelBackfillRequest) (*pb.Backfill, error) {
	b, err := s.scheduler.CancelBackfill(ctx, namespace(m.GetNamespace()), m.GetId())
	return wire.BackfillToProto(&b), err
}

package grpcapi

import (
	"context"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// ListRuns implements the rpc.
func (s *Service) ListRuns(ctx context.Context, m *pb.ListRunsRequest) (*pb.ListRunsResponse, error) {
	q, err := wire.RunQueryFromProto(m)
	if err != nil {
		return nil, err
	}
	q.Namespace = namespace(q.Namespace)
	page, err := s.scheduler.ListRuns(ctx, q)
	return &pb.ListRunsResponse{Runs: wire.RunsToProto(page.Runs), NextPageToken: page.NextPageToken}, err
}

// GetRun implements the rpc.
func (s *Service) GetRun(ctx context.Context, m *pb.GetRunRequest) (*pb.Run, error) {
	run, err := s.scheduler.GetRun(ctx, namespace(m.GetNamespace()), m.GetId())
	return wire.RunToProto(&run), err
}

// CancelRun implements the rpc.
func (s *Service) CancelRun(ctx context.Context, m *pb.CancelRunRequest) (*pb.CancelRunResponse, error) {
	c, err := s.scheduler.CancelRun(ctx, namespace(m.GetNamespace()), m.GetId())
	return &pb.CancelRunResponse{Prevented: c.Prevented, Interrupted: c.Interrupted}, err
}

// RedriveRun implements the rpc.
func (s *Service) RedriveRun(ctx context.Context, m *pb.RedriveRunRequest) (*pb.Run, error) {
	run, err := s.scheduler.RedriveRun(ctx, namespace(m.GetNamespace()), m.GetId())
	return wire.RunToProto(&run), err
}

// RedriveRuns implements the rpc.
func (s *Service) RedriveRuns(ctx context.Context,
	m *pb.RedriveRunsRequest) (*pb.RedriveRunsResponse, error) {
	n, err := s.scheduler.RedriveRuns(ctx, namespace(m.GetNamespace()), m.GetJob())
	return &pb.RedriveRunsResponse{Redriven: uint32(n)}, err
}

// CompleteRun implements the rpc.
func (s *Service) CompleteRun(ctx context.Context,
	m *pb.CompleteRunRequest) (*pb.CompleteRunResponse, error) {
	result, err := wire.CompletionFromProto(m)
	if err != nil {
		return nil, err
	}
	return &pb.CompleteRunResponse{}, s.scheduler.CompleteRun(ctx, namespace(m.GetNamespace()), result)
}

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

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

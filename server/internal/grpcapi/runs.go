package grpcapi

import (
	"context"

	"github.com/carillonhq/carillon"
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
	if err != nil {
		return nil, err
	}
	return &pb.ListRunsResponse{Runs: wire.RunsToProto(page.Runs), NextPageToken: page.NextPageToken}, nil
}

// GetRun implements the rpc.
func (s *Service) GetRun(ctx context.Context, m *pb.GetRunRequest) (*pb.Run, error) {
	return runReply(s.scheduler.GetRun(ctx, namespace(m.GetNamespace()), m.GetId()))
}

// CancelRun implements the rpc.
func (s *Service) CancelRun(ctx context.Context, m *pb.CancelRunRequest) (*pb.CancelRunResponse, error) {
	c, err := s.scheduler.CancelRun(ctx, namespace(m.GetNamespace()), m.GetId())
	if err != nil {
		return nil, err
	}
	return &pb.CancelRunResponse{Prevented: c.Prevented, Interrupted: c.Interrupted}, nil
}

// RedriveRun implements the rpc.
func (s *Service) RedriveRun(ctx context.Context, m *pb.RedriveRunRequest) (*pb.Run, error) {
	return runReply(s.scheduler.RedriveRun(ctx, namespace(m.GetNamespace()), m.GetId()))
}

// RedriveRuns implements the rpc.
func (s *Service) RedriveRuns(ctx context.Context, m *pb.RedriveRunsRequest) (*pb.RedriveRunsResponse, error) {
	n, err := s.scheduler.RedriveRuns(ctx, namespace(m.GetNamespace()), m.GetJob())
	if err != nil {
		return nil, err
	}
	return &pb.RedriveRunsResponse{Redriven: uint32(n)}, nil
}

// CompleteRun implements the rpc.
func (s *Service) CompleteRun(ctx context.Context, m *pb.CompleteRunRequest) (*pb.CompleteRunResponse, error) {
	result, err := wire.CompletionFromProto(m)
	if err != nil {
		return nil, err
	}
	if err := s.scheduler.CompleteRun(ctx, namespace(m.GetNamespace()), result); err != nil {
		return nil, err
	}
	return &pb.CompleteRunResponse{}, nil
}

func runReply(run carillon.Run, err error) (*pb.Run, error) {
	if err != nil {
		return nil, err
	}
	return wire.RunToProto(&run), nil
}

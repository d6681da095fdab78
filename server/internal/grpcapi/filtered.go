package grpcapi

import (
	"context"

	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// BulkRuns implements the rpc.
func (s *Service) BulkRuns(ctx context.Context, m *pb.BulkRunsRequest) (*pb.BulkResponse, error) {
	b, err := wire.BulkRunsFromProto(m)
	if err != nil {
		return nil, err
	}
	b.Query.Namespace = namespace(b.Query.Namespace)
	r, err := s.scheduler.BulkRuns(ctx, b)
	return wire.BulkResultToProto(&r), err
}

// BulkJobs implements the rpc.
func (s *Service) BulkJobs(ctx context.Context, m *pb.BulkJobsRequest) (*pb.BulkResponse, error) {
	b, err := wire.BulkJobsFromProto(m)
	if err != nil {
		return nil, err
	}
	b.Query.Namespace = namespace(b.Query.Namespace)
	r, err := s.scheduler.BulkJobs(ctx, b)
	return wire.BulkResultToProto(&r), err
}

package daprapi

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
)

// DeleteJob implements the rpc. A job that is not there is no error.
func (s *Service) DeleteJob(ctx context.Context, m *pb.DeleteJobRequest) (*pb.DeleteJobResponse, error) {
	a, err := s.address(ctx, m.GetMetadata())
	if err != nil {
		return nil, err
	}
	if err := a.check("name", m.GetName()); err != nil {
		return nil, s.toStatus(ctx, "DeleteJob", err)
	}
	if !a.unkept(m.GetName()) {
		_, err = s.jobs.DeleteJob(ctx, a.key(m.GetName()))
	}
	if err := unless(carillon.NotFound, err); err != nil {
		return nil, s.toStatus(ctx, "DeleteJob", err)
	}
	s.options.Metrics.Count(daprmetrics.Deleted, kindOf(a.reminder))
	return &pb.DeleteJobResponse{}, nil
}

// DeleteByMetadata implements the rpc.
func (s *Service) DeleteByMetadata(ctx context.Context,
	m *pb.DeleteByMetadataRequest) (*pb.DeleteByMetadataResponse, error) {
	a, err := s.address(ctx, m.GetMetadata())
	if err != nil {
		return nil, err
	}
	if err := s.deleteAll(ctx, a, "", a.prefix(m.GetIdPrefixMatch())); err != nil {
		return nil, s.toStatus(ctx, "DeleteByMetadata", err)
	}
	return &pb.DeleteByMetadataResponse{}, nil
}

// DeleteByNamePrefix implements the rpc. As in Dapr's own keys the prefix follows what the metadata names:
// without an actor's id it is what ids begin with.
func (s *Service) DeleteByNamePrefix(ctx context.Context,
	m *pb.DeleteByNamePrefixRequest) (*pb.DeleteByNamePrefixResponse, error) {
	a, err := s.address(ctx, m.GetMetadata())
	if err != nil {
		return nil, err
	}
	prefix := a.prefix(false)
	if m.GetNamePrefix() != "" {
		prefix += carillon.EscapeLevel(m.GetNamePrefix())
	}
	if err := s.deleteAll(ctx, a, m.GetNamePrefix(), prefix); err != nil {
		return nil, s.toStatus(ctx, "DeleteByNamePrefix", err)
	}
	return &pb.DeleteByNamePrefixResponse{}, nil
}

// deleteAll removes all jobs whose names begin so.
func (s *Service) deleteAll(ctx context.Context, a address, namePrefix, prefix string) error {
	if err := a.check("name_prefix", namePrefix); err != nil {
		return err
	}
	if len(prefix) <= carillon.MaxName { // no name begins with more
		if _, err := s.jobs.DeleteJobs(ctx, a.namespace, prefix); err != nil {
			return err
		}
	}
	s.options.Metrics.Count(daprmetrics.BulkDeleted, "")
	return nil
}

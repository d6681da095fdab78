package daprapi

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
)

// DeleteJob implements the rpc. A job that is not there is no error.
func (s *Service) DeleteJob(ctx context.Context, m *pb.DeleteJobRequest) (*pb.DeleteJobResponse, error) {
	return answer(ctx, s, "DeleteJob", m, func(ctx context.Context, a address) (*pb.DeleteJobResponse, error) {
		err := a.check("name", m.GetName())
		if err == nil && !a.unkept(m.GetName()) {
			_, err = s.jobs.DeleteJob(ctx, a.Key(m.GetName()))
			err = unless(carillon.NotFound, err)
		}
		if err == nil {
			s.options.Metrics.Count(daprmetrics.Deleted, kindOf(a.Reminder))
		}
		return &pb.DeleteJobResponse{}, err
	})
}

// DeleteByMetadata implements the rpc.
func (s *Service) DeleteByMetadata(ctx context.Context,
	m *pb.DeleteByMetadataRequest) (*pb.DeleteByMetadataResponse, error) {
	return answer(ctx, s, "DeleteByMetadata", m, func(ctx context.Context,
		a address) (*pb.DeleteByMetadataResponse, error) {
		return &pb.DeleteByMetadataResponse{}, s.deleteAll(ctx, a, "", a.Prefix(m.GetIdPrefixMatch()))
	})
}

// DeleteByNamePrefix implements the rpc. As in Dapr's own keys the prefix follows what the metadata names:
// without an actor's id it is what ids begin with.
func (s *Service) DeleteByNamePrefix(ctx context.Context,
	m *pb.DeleteByNamePrefixRequest) (*pb.DeleteByNamePrefixResponse, error) {
	return answer(ctx, s, "DeleteByNamePrefix", m, func(ctx context.Context,
		a address) (*pb.DeleteByNamePrefixResponse, error) {
		return &pb.DeleteByNamePrefixResponse{}, s.deleteAll(ctx, a, m.GetNamePrefix(),
			underPrefix(a.Address, m.GetNamePrefix()))
	})
}

// deleteAll removes all jobs whose names begin so.
func (s *Service) deleteAll(ctx context.Context, a address, namePrefix, prefix string) error {
	if err := a.check("name_prefix", namePrefix); err != nil {
		return err
	}
	if len(prefix) <= carillon.MaxName { // no name begins with more
		if _, err := s.jobs.DeleteJobs(ctx, a.Namespace, prefix); err != nil {
			return err
		}
	}
	s.options.Metrics.Count(daprmetrics.BulkDeleted, "")
	return nil
}

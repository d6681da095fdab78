package daprapi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/dapr/proto/scheduler/v1"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
)

// ScheduleJob implements the rpc.
func (s *Service) ScheduleJob(ctx context.Context,
	m *pb.ScheduleJobRequest) (*pb.ScheduleJobResponse, error) {
	a, err := s.address(ctx, m.GetMetadata())
	if err != nil {
		return nil, err
	}
	kind := kindOf(a.reminder)
	if err := s.schedule(ctx, a, m); err != nil {
		s.options.Metrics.Count(daprmetrics.CreatedFailed, kind)
		return nil, s.toStatus(ctx, "ScheduleJob", err)
	}
	s.options.Metrics.Count(daprmetrics.Created, kind)
	return &pb.ScheduleJobResponse{}, nil
}

func (s *Service) schedule(ctx context.Context, a address, m *pb.ScheduleJobRequest) error {
	if err := a.check("name", m.GetName()); err != nil {
		return err
	}
	job, err := jobOf(a.key(m.GetName()), a.target, m.GetJob(), s.options.Now())
	switch {
	case err != nil:
		return err
	case a.nowhere():
		return carillon.Errorf(carillon.InvalidArgument, "metadata.target.actor",
			"a reminder needs an actor's type and id")
	}
	mode := carillon.IfAbsent()
	if m.GetOverwrite() {
		mode = carillon.Replace()
	}
	_, err = s.jobs.PutJob(ctx, job, mode)
	switch e, _ := errors.AsType[*carillon.Error](err); {
	case err == nil || e == nil:
		return err
	case e.Kind == carillon.AlreadyExists:
		return a.exists(m.GetName())
	case errors.Is(err, carillon.ErrEndsFirst):
		return s.scheduleNothing(ctx, a, m)
	case e.Kind == carillon.InvalidArgument && e.Field == "data":
		return status.Error(codes.ResourceExhausted, "job.data: "+e.Message)
	}
	return err
}

// scheduleNothing is about a job whose life ends before its first run. Dapr's scheduler takes it, and it is
// gone at once.
func (s *Service) scheduleNothing(ctx context.Context, a address, m *pb.ScheduleJobRequest) error {
	key := a.key(m.GetName())
	if m.GetOverwrite() {
		_, err := s.jobs.DeleteJob(ctx, key)
		return unless(carillon.NotFound, err)
	}
	_, err := s.jobs.GetJob(ctx, key)
	if err == nil {
		return a.exists(m.GetName())
	}
	return unless(carillon.NotFound, err)
}

func (a address) exists(name string) error {
	return status.Errorf(codes.AlreadyExists, "job already exists: '%s'", a.keyInDapr(name))
}

// unless is err, or nil if it is of the kind.
func unless(kind carillon.Kind, err error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// GetJob implements the rpc.
func (s *Service) GetJob(ctx context.Context, m *pb.GetJobRequest) (*pb.GetJobResponse, error) {
	job, err := s.get(ctx, m)
	if errors.Is(err, carillon.NotFound) {
		return nil, status.Error(codes.NotFound, "job not found: "+m.GetName())
	}
	if err != nil {
		return nil, s.toStatus(ctx, "GetJob", err)
	}
	return &pb.GetJobResponse{Job: jobToDapr(&job)}, nil
}

func (s *Service) get(ctx context.Context, m *pb.GetJobRequest) (carillon.Job, error) {
	a, err := s.address(ctx, m.GetMetadata())
	if err != nil {
		return carillon.Job{}, err
	}
	if err := a.check("name", m.GetName()); err != nil {
		return carillon.Job{}, err
	}
	if a.unkept(m.GetName()) {
		return carillon.Job{}, carillon.NotFound
	}
	return s.jobs.GetJob(ctx, a.key(m.GetName()))
}

// ListJobs implements the rpc. The answer is one message, so it has a bound.
func (s *Service) ListJobs(ctx context.Context, m *pb.ListJobsRequest) (*pb.ListJobsResponse, error) {
	all, err := s.list(ctx, m)
	if err != nil {
		return nil, s.toStatus(ctx, "ListJobs", err)
	}
	return all, nil
}

func (s *Service) list(ctx context.Context, m *pb.ListJobsRequest) (*pb.ListJobsResponse, error) {
	a, err := s.address(ctx, m.GetMetadata())
	if err != nil {
		return nil, err
	}
	if err := a.checkNamespace(); err != nil {
		return nil, err
	}
	all := &pb.ListJobsResponse{}
	if a.reminder && a.target.ActorType == "" {
		return all, nil
	}
	size := 0
	q := carillon.JobQuery{Namespace: a.namespace, Prefix: a.prefix(false), PageSize: carillon.MaxBatch}
	for {
		page, err := s.jobs.ListJobs(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			if page.Jobs[i].Target.Dapr == nil {
				continue // no job of Dapr's has such a name
			}
			j := namedJob(&page.Jobs[i])
			if size += proto.Size(j); size > s.options.ListBytes {
				return nil, status.Errorf(codes.ResourceExhausted, "the list is larger than %d bytes",
					s.options.ListBytes)
			}
			all.Jobs = append(all.Jobs, j)
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all, nil
		}
	}
}

func namedJob(job *carillon.Job) *pb.NamedJob {
	return &pb.NamedJob{Name: nameOf(job.Name), Metadata: metadataOf(job.Namespace, job.Target.Dapr),
		Job: jobToDapr(job)}
}

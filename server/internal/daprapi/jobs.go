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
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// ScheduleJob implements the rpc.
func (s *Service) ScheduleJob(ctx context.Context,
	m *pb.ScheduleJobRequest) (*pb.ScheduleJobResponse, error) {
	return answer(ctx, s, "ScheduleJob", m, func(ctx context.Context,
		a address) (*pb.ScheduleJobResponse, error) {
		err := s.schedule(ctx, a, m)
		outcome := daprmetrics.Created
		if err != nil {
			outcome = daprmetrics.CreatedFailed
		}
		s.options.Metrics.Count(outcome, kindOf(a.Reminder))
		return &pb.ScheduleJobResponse{}, err
	})
}

func (s *Service) schedule(ctx context.Context, a address, m *pb.ScheduleJobRequest) error {
	if err := a.check("name", m.GetName()); err != nil {
		return err
	}
	job, err := daprrecord.NewJob(a.Key(m.GetName()), a.Target, m.GetJob(), s.options.Now())
	switch {
	case err != nil:
		return err
	case a.Nowhere():
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
	key := a.Key(m.GetName())
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
	return status.Errorf(codes.AlreadyExists, "job already exists: '%s'", a.InDapr(name))
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
	return answer(ctx, s, "GetJob", m, func(ctx context.Context, a address) (*pb.GetJobResponse, error) {
		if err := a.check("name", m.GetName()); err != nil {
			return nil, err
		}
		job, err := carillon.Job{}, error(carillon.NotFound)
		if !a.unkept(m.GetName()) {
			job, err = s.jobs.GetJob(ctx, a.Key(m.GetName()))
		}
		if errors.Is(err, carillon.NotFound) {
			err = status.Error(codes.NotFound, "job not found: "+m.GetName())
		}
		return &pb.GetJobResponse{Job: daprrecord.ToDapr(&job)}, err
	})
}

// ListJobs implements the rpc. The answer is one message, so it has a bound.
func (s *Service) ListJobs(ctx context.Context, m *pb.ListJobsRequest) (*pb.ListJobsResponse, error) {
	return answer(ctx, s, "ListJobs", m, s.list)
}

func (s *Service) list(ctx context.Context, a address) (*pb.ListJobsResponse, error) {
	if err := a.checkNamespace(); err != nil {
		return nil, err
	}
	all := &pb.ListJobsResponse{}
	if a.Reminder && a.Target.ActorType == "" {
		return all, nil
	}
	size := 0
	q := carillon.JobQuery{Namespace: a.Namespace, Prefix: a.Prefix(false), PageSize: carillon.MaxBatch}
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
	return &pb.NamedJob{Name: daprrecord.NameOf(job.Name), Job: daprrecord.ToDapr(job),
		Metadata: daprrecord.MetadataOf(job.Namespace, job.Target.Dapr)}
}

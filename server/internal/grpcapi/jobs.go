package grpcapi

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// PutJob implements the rpc.
func (s *Service) PutJob(ctx context.Context, m *pb.PutJobRequest) (*pb.PutJobResponse, error) {
	var opts []carillon.PutOption
	if m.GetIfAbsent() {
		opts = append(opts, carillon.IfAbsent())
	}
	if n := m.GetIfGeneration(); n != 0 {
		opts = append(opts, carillon.IfGeneration(n))
	}
	if len(opts) == 2 {
		return nil, invalid("if_absent", "cannot be asked for together with if_generation")
	}
	return s.put(ctx, m.GetJob(), m.GetNamespace(), m.GetName(), opts...)
}

// CreateJob implements the rpc.
func (s *Service) CreateJob(ctx context.Context, m *pb.CreateJobRequest) (*pb.PutJobResponse, error) {
	return s.put(ctx, m.GetJob(), m.GetNamespace(), "", carillon.IfAbsent())
}

func (s *Service) put(ctx context.Context, m *pb.Job, ns, name string,
	opts ...carillon.PutOption) (*pb.PutJobResponse, error) {
	if m == nil {
		return nil, invalid("job", "must be given")
	}
	if err := place(m, ns, name); err != nil {
		return nil, err
	}
	job, err := wire.JobFromProto(m)
	if err != nil {
		return nil, err
	}
	put, err := s.scheduler.PutJob(ctx, job, opts...)
	return wire.PutToProto(&put), err
}

// BatchPutJobs implements the rpc.
func (s *Service) BatchPutJobs(ctx context.Context,
	m *pb.BatchPutJobsRequest) (*pb.BatchPutJobsResponse, error) {
	puts, err := s.putBatch(ctx, m.GetNamespace(), m.GetJobs())
	if err != nil {
		return nil, err
	}
	out := &pb.BatchPutJobsResponse{Puts: make([]*pb.PutJobResponse, len(puts))}
	for i := range puts {
		puts[i].Job.Data.Bytes = nil // the caller has it, and a thousand of them may not fit
		out.Puts[i] = wire.PutToProto(&puts[i])
	}
	return out, nil
}

func (s *Service) putBatch(ctx context.Context, ns string, ms []*pb.Job) ([]carillon.PutResult, error) {
	if len(ms) > carillon.MaxBatch {
		return nil, invalid("jobs", "%d in one batch; the limit is %d", len(ms), carillon.MaxBatch)
	}
	if err := carillon.ValidateNamespace(namespace(ns)); err != nil {
		return nil, err // also of a batch that is empty
	}
	for i, m := range ms {
		if err := place(m, ns, ""); err != nil {
			return nil, wire.Within(fmt.Sprintf("jobs[%d]", i), err)
		}
	}
	jobs, err := wire.JobsFromProto(ms)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return s.scheduler.PutJobs(ctx, jobs)
}

// PatchJob implements the rpc.
func (s *Service) PatchJob(ctx context.Context, m *pb.PatchJobRequest) (*pb.PutJobResponse, error) {
	if m.Job == nil {
		m.Job = &pb.Job{}
	}
	if err := place(m.Job, m.GetNamespace(), m.GetName()); err != nil {
		return nil, err
	}
	k, err := key(m.Job.GetNamespace(), m.Job.GetName())
	if err != nil {
		return nil, err
	}
	patch, err := wire.PatchFromProto(m)
	if err != nil {
		return nil, err
	}
	put, err := s.scheduler.PatchJob(ctx, k, patch)
	return wire.PutToProto(&put), err
}

// GetJob implements the rpc.
func (s *Service) GetJob(ctx context.Context, m *pb.GetJobRequest) (*pb.Job, error) {
	job, err := onJob(ctx, m, s.scheduler.GetJob)
	return wire.JobToProto(&job), err
}

// ListJobs implements the rpc.
func (s *Service) ListJobs(ctx context.Context, m *pb.ListJobsRequest) (*pb.ListJobsResponse, error) {
	q, err := wire.JobQueryFromProto(m)
	if err != nil {
		return nil, err
	}
	q.Namespace = namespace(q.Namespace)
	page, err := s.scheduler.ListJobs(ctx, q)
	return &pb.ListJobsResponse{Jobs: wire.JobsToProto(page.Jobs), NextPageToken: page.NextPageToken}, err
}

// DeleteJob implements the rpc.
func (s *Service) DeleteJob(ctx context.Context, m *pb.DeleteJobRequest) (*pb.DeleteJobResponse, error) {
	deleted, err := onJob(ctx, m, func(ctx context.Context, k carillon.Key) (carillon.DeleteResult, error) {
		return s.scheduler.DeleteJob(ctx, k, carillon.IfGeneration(m.GetIfGeneration()))
	})
	return &pb.DeleteJobResponse{Deleted: true, Interrupted: deleted.Interrupted}, err
}

// DeleteJobs implements the rpc.
func (s *Service) DeleteJobs(ctx context.Context, m *pb.DeleteJobsRequest) (*pb.DeleteJobsResponse, error) {
	if m.GetPrefix() == "" {
		return nil, invalid("prefix", "must not be empty: it would delete every job of the namespace")
	}
	n, err := s.scheduler.DeleteJobs(ctx, namespace(m.GetNamespace()), m.GetPrefix())
	return &pb.DeleteJobsResponse{Deleted: uint32(n)}, err
}

// TriggerJob implements the rpc.
func (s *Service) TriggerJob(ctx context.Context, m *pb.TriggerJobRequest) (*pb.Run, error) {
	o, err := wire.TriggerFromProto(m)
	if err != nil {
		return nil, err
	}
	run, err := onJob(ctx, m, func(ctx context.Context, k carillon.Key) (carillon.Run, error) {
		return s.scheduler.TriggerJob(ctx, k, o)
	})
	return wire.RunToProto(&run), err
}

// PauseJob implements the rpc.
func (s *Service) PauseJob(ctx context.Context, m *pb.PauseJobRequest) (*pb.Job, error) {
	return s.setPaused(ctx, m, carillon.PauseOptions{Paused: true, Note: m.GetNote()})
}

// ResumeJob implements the rpc.
func (s *Service) ResumeJob(ctx context.Context, m *pb.ResumeJobRequest) (*pb.Job, error) {
	return s.setPaused(ctx, m, carillon.PauseOptions{Note: m.GetNote(), CatchUp: m.GetCatchUp()})
}

func (s *Service) setPaused(ctx context.Context, m aboutJob, p carillon.PauseOptions) (*pb.Job, error) {
	job, err := onJob(ctx, m, func(ctx context.Context, k carillon.Key) (carillon.Job, error) {
		return s.scheduler.SetPaused(ctx, k, p)
	})
	return wire.JobToProto(&job), err
}

// SkipRun implements the rpc.
func (s *Service) SkipRun(ctx context.Context, m *pb.SkipRunRequest) (*pb.SkipRunResponse, error) {
	skip, err := onJob(ctx, m, s.scheduler.SkipRun)
	return wire.SkipToProto(&skip), err
}

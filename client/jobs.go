package client

import (
	"context"
	"fmt"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// PutJob stores a job; see [carillon.Jobs]. Repeating it is harmless: the same job is not stored twice. (A
// one-shot whose due time is relative or absent starts again.)
func (c *Client) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	sent, err := jobToProto(job)
	if err != nil {
		return carillon.PutResult{}, err
	}
	o := carillon.PutOptions{}.With(opts...)
	if o.Replace {
		return carillon.PutResult{}, wire.NotSupported("replace")
	}
	return putResult(c.service.PutJob(ctx,
		&pb.PutJobRequest{Job: sent, IfAbsent: o.IfAbsent, IfGeneration: o.IfGeneration}))
}

// PutJobs stores all jobs or none; see [carillon.Jobs]. For more than a thousand use [Client.PutStream].
func (c *Client) PutJobs(ctx context.Context, jobs []carillon.Job) ([]carillon.PutResult, error) {
	ms, err := jobsToProto(jobs)
	if err != nil {
		return nil, err
	}
	m, err := c.service.BatchPutJobs(ctx, &pb.BatchPutJobsRequest{Jobs: ms})
	if err != nil {
		return nil, err
	}
	puts := make([]carillon.PutResult, len(m.GetPuts()))
	for i, p := range m.GetPuts() {
		if puts[i], err = wire.PutFromProto(p); err != nil {
			return nil, err
		}
		if i < len(jobs) && puts[i].Job.Data.Ref == nil {
			puts[i].Job.Data = jobs[i].Data // the answer leaves it out
		}
	}
	return puts, nil
}

// PatchJob changes fields of a job; see [carillon.Jobs]. Repeating it is harmless.
func (c *Client) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	patch.Job = patch.ForMessage()
	patch.Job.Namespace, patch.Job.Name, patch.Job.Status = key.Namespace, key.Name, nil
	if err := patch.Job.CheckForm(); err != nil {
		return carillon.PutResult{}, err
	}
	return putResult(c.service.PatchJob(ctx, wire.PatchToProto(key, &patch)))
}

// SetPaused pauses or resumes a job; see [carillon.Jobs].
func (c *Client) SetPaused(ctx context.Context, key carillon.Key,
	p carillon.PauseOptions) (carillon.Job, error) {
	if p.Paused {
		return job(c.service.PauseJob(ctx, &pb.PauseJobRequest{Namespace: key.Namespace,
			Name: key.Name, Note: p.Note}))
	}
	return job(c.service.ResumeJob(ctx, &pb.ResumeJobRequest{Namespace: key.Namespace, Name: key.Name,
		Note: p.Note, CatchUp: p.CatchUp}))
}

// ListTimes returns the next times of a job; see [carillon.Timetables].
func (c *Client) ListTimes(ctx context.Context, q carillon.TimesQuery) (carillon.Timetable, error) {
	m, err := c.service.ListTimes(ctx, wire.TimesQueryToProto(&q))
	return wire.TimetableFromProto(m), err
}

// GetJob returns a job with its status; see [carillon.Jobs].
func (c *Client) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return job(c.service.GetJob(ctx, &pb.GetJobRequest{Namespace: key.Namespace, Name: key.Name}))
}

// ListJobs returns a page of jobs; see [carillon.Jobs].
func (c *Client) ListJobs(ctx context.Context, q carillon.JobQuery) (carillon.JobPage, error) {
	m, err := c.service.ListJobs(ctx, wire.JobQueryToProto(&q))
	if err != nil {
		return carillon.JobPage{}, err
	}
	jobs, err := wire.JobsFromProto(m.GetJobs())
	return carillon.JobPage{Jobs: jobs, NextPageToken: m.GetNextPageToken()}, err
}

// DeleteJob removes a job; see [carillon.Jobs].
func (c *Client) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	m, err := c.service.DeleteJob(ctx, &pb.DeleteJobRequest{Namespace: key.Namespace, Name: key.Name,
		IfGeneration: carillon.DeleteOptions{}.With(opts...).IfGeneration})
	return carillon.DeleteResult{Interrupted: m.GetInterrupted()}, err
}

// DeleteJobs removes jobs by prefix; see [carillon.Jobs].
func (c *Client) DeleteJobs(ctx context.Context, namespace, prefix string) (int, error) {
	m, err := c.service.DeleteJobs(ctx, &pb.DeleteJobsRequest{Namespace: namespace, Prefix: prefix})
	return int(m.GetDeleted()), err
}

// jobToProto returns the job as a message, without its status. It refuses a job that a message can only
// express in part; the server validates the rest.
func jobToProto(j carillon.Job) (*pb.Job, error) {
	if err := j.CheckForm(); err != nil {
		return nil, err
	}
	j.Status = nil
	return wire.JobToProto(&j), nil
}

func jobsToProto(jobs []carillon.Job) ([]*pb.Job, error) {
	ms := make([]*pb.Job, len(jobs))
	for i := range jobs {
		var err error
		if ms[i], err = jobToProto(jobs[i]); err != nil {
			return nil, wire.Within(fmt.Sprintf("jobs[%d]", i), err)
		}
	}
	return ms, nil
}

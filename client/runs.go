package client

import (
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// TriggerJob runs a job now; see [carillon.Runs]. Repeating it makes another run.
func (c *Client) TriggerJob(ctx context.Context, key carillon.Key,
	opts ...carillon.TriggerOption) (carillon.Run, error) {
	o := carillon.TriggerOptions{}.With(opts...)
	if o.Data != nil {
		if err := (&carillon.Job{Data: *o.Data}).CheckForm(); err != nil {
			return carillon.Run{}, err
		}
	}
	return run(c.service.TriggerJob(ctx, wire.TriggerToProto(key, &o)))
}

// SkipRun skips a job's next scheduled time; see [carillon.Runs]. Repeating it skips another one.
func (c *Client) SkipRun(ctx context.Context, key carillon.Key) (carillon.SkipResult, error) {
	return skipResult(c.service.SkipRun(ctx, &pb.SkipRunRequest{Namespace: key.Namespace, Name: key.Name}))
}

// ListRuns returns a page of runs; see [carillon.Runs].
func (c *Client) ListRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	m, err := c.service.ListRuns(ctx, wire.RunQueryToProto(&q))
	if err != nil {
		return carillon.RunPage{}, err
	}
	runs, err := wire.RunsFromProto(m.GetRuns())
	return carillon.RunPage{Runs: runs, NextPageToken: m.GetNextPageToken()}, err
}

// GetRun returns a run, finished or not; see [carillon.Runs].
func (c *Client) GetRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return run(c.service.GetRun(ctx, &pb.GetRunRequest{Namespace: namespace, Id: id}))
}

// CancelRun ends an unfinished run; see [carillon.Runs].
func (c *Client) CancelRun(ctx context.Context, namespace, id string) (carillon.CancelResult, error) {
	m, err := c.service.CancelRun(ctx, &pb.CancelRunRequest{Namespace: namespace, Id: id})
	return carillon.CancelResult{Prevented: m.GetPrevented(), Interrupted: m.GetInterrupted()}, err
}

// RedriveRun tries a dead run again; see [carillon.Runs].
func (c *Client) RedriveRun(ctx context.Context, namespace, id string) (carillon.Run, error) {
	return run(c.service.RedriveRun(ctx, &pb.RedriveRunRequest{Namespace: namespace, Id: id}))
}

// RedriveRuns tries the dead runs of a job, or of a namespace, again; see [carillon.Runs].
func (c *Client) RedriveRuns(ctx context.Context, namespace, job string) (int, error) {
	m, err := c.service.RedriveRuns(ctx, &pb.RedriveRunsRequest{Namespace: namespace, Job: job})
	return int(m.GetRedriven()), err
}

// CompleteRun reports the later result of an attempt, or its progress; see [carillon.Runs]. Repeating it is
// harmless.
func (c *Client) CompleteRun(ctx context.Context, namespace string, result carillon.Result) error {
	_, err := c.service.CompleteRun(ctx, wire.CompletionToProto(namespace, &result))
	return err
}

// BulkRuns cancels or redrives the runs that a query selects; see [carillon.Bulk]. Repeating it is harmless.
func (c *Client) BulkRuns(ctx context.Context, b carillon.BulkRuns) (carillon.BulkResult, error) {
	m, err := c.service.BulkRuns(ctx, wire.BulkRunsToProto(&b))
	return wire.BulkResultFromProto(m), err
}

// BulkJobs triggers, deletes, pauses or resumes the jobs that a query selects; see [carillon.Bulk]. Repeating
// it is harmless unless it triggers.
func (c *Client) BulkJobs(ctx context.Context, b carillon.BulkJobs) (carillon.BulkResult, error) {
	m, err := c.service.BulkJobs(ctx, wire.BulkJobsToProto(&b))
	return wire.BulkResultFromProto(m), err
}

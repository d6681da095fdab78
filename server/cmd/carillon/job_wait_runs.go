package main

import (
	"context"
	"slices"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/partition"
	"github.com/carillonhq/carillon/server/store"
)

// jobWait looks for what a wait for a job waits for.
type jobWait struct {
	key   carillon.Key
	until string
	began bool

	// What was there when the wait began. Nothing of it counts but the run of a one-shot that is over.
	uid  *carillon.UID        // of a one-shot; nil: it recurs, or it was gone already
	last time.Time            // when the last run of a job that recurs ended, by the clock of the nodes
	seen map[string]time.Time // the runs that ended then
}

// look is a [look].
func (j *jobWait) look(ctx context.Context, node *client.Client) (*carillon.Run, bool, error) {
	job, err := node.GetJob(ctx, j.key)
	gone := carillon.KindOf(err) == carillon.NotFound
	if err != nil && !gone {
		return nil, false, err
	}
	s := statusOf(&job)
	if j.until == untilIdle {
		idle := gone || s.Current == nil && len(s.Pending) == 0 && (s.NextRun.IsZero() || job.Recurring())
		return nil, idle, hasAny(ctx, node, j.key, gone, err)
	}
	if !j.began {
		if err := j.begin(ctx, node, &job, gone); err != nil {
			return nil, false, err
		}
	}
	wanted := finishedStatuses
	if j.until == untilSucceeded {
		wanted = []carillon.RunStatus{carillon.RunSucceeded}
	}
	run, found := j.ended(ctx, node, wanted)
	if found == nil && run == nil && gone {
		run, found = j.ended(ctx, node, finishedStatuses) // no other will come
	}
	if found == nil && run == nil && gone {
		found = err // there is no job, and no run of it
	}
	return run, run != nil, found
}

// begin remembers what is there. It does not go by this machine's clock.
func (j *jobWait) begin(ctx context.Context, node *client.Client, job *carillon.Job, gone bool) error {
	switch {
	case gone:
	case !job.Recurring():
		j.uid = &statusOf(job).UID
	default: // they come by their scheduled times, so the first may not be the last
		page, err := node.ListRuns(ctx, carillon.RunQuery{Namespace: j.key.Namespace, Job: j.key.Name,
			Statuses: finishedStatuses, PageSize: carillon.MaxBatch})
		if err != nil {
			return err
		}
		j.seen = make(map[string]time.Time)
		for i := range page.Runs {
			r := &page.Runs[i]
			if r.Finished.After(j.last) {
				j.last = r.Finished
			}
			j.seen[r.ID] = r.Finished
		}
	}
	j.began = true
	return nil
}

var finishedStatuses = []carillon.RunStatus{carillon.RunSucceeded, carillon.RunFailed, carillon.RunDead,
	carillon.RunCancelled}

// hasAny returns the error of a job that is gone if there are no runs of it either.
func hasAny(ctx context.Context, node *client.Client, key carillon.Key, gone bool, err error) error {
	if !gone {
		return nil
	}
	page, listErr := node.ListRuns(ctx, carillon.RunQuery{Namespace: key.Namespace, Job: key.Name, PageSize: 1})
	if listErr != nil || len(page.Runs) == 0 {
		return err
	}
	return nil
}

// ended returns the newest run that ended in one of the ways, and counts; nil if there is none.
func (j *jobWait) ended(ctx context.Context, node *client.Client,
	statuses []carillon.RunStatus) (*carillon.Run, error) {
	q := carillon.RunQuery{Namespace: j.key.Namespace, Job: j.key.Name, From: j.last, Statuses: statuses}
	for {
		page, err := node.ListRuns(ctx, q)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(page.Runs, j.counts); i >= 0 {
			return &page.Runs[i], nil
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return nil, nil
		}
	}
}

// counts reports whether a run is one that is waited for.
func (j *jobWait) counts(r carillon.Run) bool {
	if ended, known := j.seen[r.ID]; known && ended.Equal(r.Finished) {
		return false
	}
	if j.uid == nil {
		return true
	}
	id, err := store.ParseRunID(r.ID)
	return err == nil && id.UID == *j.uid && r.Reason != partition.ReasonReplaced
}

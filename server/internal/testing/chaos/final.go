package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/checker"
	"github.com/carillonhq/carillon/server/store"
)

// Coming to rest.
const (
	// how long recurring jobs go on after the last fault: that they are on time again is to be seen.
	inPeace    = 11 * time.Second
	restWithin = 60 * time.Second // until nothing is due any more
)

// rest lets the system come to rest and reads what is there.
func (c *workers) rest(ctx context.Context) error {
	cl, err := c.doors.client(newDice(c.seed, "last's way"))
	if err != nil {
		return err
	}
	defer cl.Close()
	last := &user{name: "last", caller: cl, record: c.record, dice: newDice(c.seed, "last"),
		known: map[string]uint64{}}
	if err := c.all(ctx, last, false); err != nil {
		return err
	}
	if err := pause(ctx, inPeace); err != nil {
		return err
	}
	if err := c.all(ctx, last, true); err != nil {
		return err
	}
	c.log("everything is paused")
	left, err := c.drained(ctx, cl)
	if err != nil {
		return err
	}
	c.log("at rest")
	final, err := c.read(ctx, cl)
	if err != nil {
		return err
	}
	final.Left = left
	if c.owners != nil {
		final.Owners = c.owners()
	}
	c.record.Finish(final)
	return nil
}

// all pauses or resumes every recurring job.
func (c *workers) all(ctx context.Context, u *user, paused bool) error {
	page, err := u.caller.(batcher).ListJobs(ctx,
		carillon.JobQuery{Prefix: "recurring/", PageSize: carillon.MaxBatch})
	if err != nil {
		return fmt.Errorf("list the recurring jobs: %w", err)
	}
	for i := range page.Jobs {
		if err := u.setPaused(page.Jobs[i].Name, paused); err != nil {
			return fmt.Errorf("after everything was healed: %w", err)
		}
	}
	return nil
}

// drained waits until only paused jobs are left and nothing is in force, and says what is left over
// otherwise.
func (c *workers) drained(ctx context.Context, cl talker) (left []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, restWithin)
	defer cancel()
	for {
		left, err = c.restless(ctx, cl)
		if err != nil || len(left) == 0 {
			return left, err
		}
		c.log("not at rest: %d, such as %s", len(left), left[0])
		if pause(ctx, 500*time.Millisecond) != nil {
			return left, nil
		}
	}
}

// restless is what there should not be any more.
func (c *workers) restless(ctx context.Context, cl talker) (left []string, err error) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	jobs, err := allJobs(asking, cl)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		j := &jobs[i]
		if !j.Recurring() || j.Status.Current != nil || j.Status.Phase != carillon.PhasePaused {
			left = append(left, fmt.Sprintf("job %s is %s", j.Name, j.Status.Phase))
		}
	}
	for _, n := range c.doors.nodes() {
		text, err := n.get(asking, "/metrics")
		if err != nil {
			return nil, err
		}
		for _, name := range []string{
			"carillon_runs_in_flight", "carillon_queue_depth", "carillon_queue_in_flight",
			"carillon_queue_waiting_partitions",
		} {
			for series, value := range samples(text, name) {
				if value != 0 {
					left = append(left, fmt.Sprintf("%s is %v at %s", series, value, n.HTTP))
				}
			}
		}
	}
	slices.Sort(left)
	return left, nil
}

// samples are the values of a metric.
func samples(text, name string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); !ok || base != name {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[series] = v
		}
	}
	return out
}

func allJobs(ctx context.Context, cl talker) (all []carillon.Job, err error) {
	q := carillon.JobQuery{Namespace: namespace, PageSize: carillon.MaxBatch}
	for {
		page, err := cl.ListJobs(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list the jobs: %w", err)
		}
		all = append(all, page.Jobs...)
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all, nil
		}
	}
}

// read reads all jobs and the history of every job that was ever named.
func (c *workers) read(ctx context.Context, cl talker) (checker.Final, error) {
	final := checker.Final{Whole: true}
	jobs, err := allJobs(ctx, cl)
	if err != nil {
		return final, err
	}
	c.ended.jobs = jobs
	for i := range jobs {
		j := &jobs[i]
		n := j.Status.Counters
		final.Jobs = append(final.Jobs, checker.FinalJob{
			Namespace: j.Namespace, Job: j.Name, UID: j.Status.UID.String(), Generation: j.Status.Generation,
			Paused: j.Paused, Payload: hashOf(j.Data.Bytes), NextRun: j.Status.NextRun,
			Counters: checker.Counters{Fired: n.Fired, Succeeded: n.Succeeded, Failed: n.Failed,
				Retried: n.Retried, Dead: n.Dead, Skipped: n.Skipped, Late: n.Late, Dropped: n.Dropped,
				Cancelled: n.Cancelled},
		})
	}
	var names []string
	for _, op := range c.record.History().Ops {
		if op.Spec != nil && op.Kind != checker.Patch {
			names = append(names, op.Job)
		}
	}
	slices.Sort(names)
	c.ended.runs, err = histories(ctx, cl, slices.Compact(names))
	for i := range c.ended.runs {
		final.Runs = append(final.Runs, finalRun(&c.ended.runs[i]))
	}
	return final, err
}

// finalRun is a record of the history as the checker reads it.
func finalRun(r *carillon.Run) checker.FinalRun {
	return checker.FinalRun{
		RunID: r.ID, Namespace: r.Namespace, Job: r.Job, Status: r.Status.String(), Reason: r.Reason,
		Cause:     r.Cause.String(),
		Scheduled: r.Scheduled, From: r.Skipped.From, Skipped: r.Skipped.Times, Attempt: r.Attempt,
		Finished: r.Finished, UID: uidOf(r.ID), InDoubt: r.InDoubt,
	}
}

// histories reads the finished runs of jobs, some at a time.
func histories(ctx context.Context, cl talker, names []string) ([]carillon.Run, error) {
	const readers = 8
	found := make([][]carillon.Run, readers)
	errs := make([]error, readers)
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			for i := r; i < len(names) && errs[r] == nil; i += readers {
				var runs []carillon.Run
				runs, errs[r] = historyOf(ctx, cl, names[i])
				found[r] = append(found[r], runs...)
			}
		})
	}
	wg.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// uidOf is the uid of the job that a run is of; "" if its id cannot be read.
func uidOf(run string) string {
	id, err := store.ParseRunID(run)
	if err != nil {
		return ""
	}
	return id.UID.String()
}

func historyOf(ctx context.Context, cl talker, name string) (all []carillon.Run, err error) {
	q := carillon.RunQuery{Namespace: namespace, Job: name, PageSize: carillon.MaxBatch}
	for {
		page, err := cl.ListRuns(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("list the runs of %s: %w", name, err)
		}
		for i := range page.Runs {
			if page.Runs[i].Status.Finished() {
				all = append(all, page.Runs[i])
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return all, nil
		}
	}
}

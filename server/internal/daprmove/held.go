package daprmove

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// noteOf returns the note of the jobs of a state that have not been let go yet.
func noteOf(state string) string { return "held until the import " + state + " is whole" }

// holds reports whether a job is one of a state that has not been let go.
func holds(job *carillon.Job, state string) bool { return job.Paused && job.Note == noteOf(state) }

// untouched reports whether a job is as an import of one of the states has put it.
func untouched(job *carillon.Job, states []string) bool {
	return job.Status.Generation == 1 &&
		slices.ContainsFunc(states, func(state string) bool { return holds(job, state) })
}

// held calls f with each job of the states that has not been let go yet.
func (im *importer) held(ctx context.Context, states []string, f func(*carillon.Job)) error {
	for _, namespace := range im.mine.now().Namespaces {
		err := eachJob(ctx, im.call, im.jobs, namespace, func(job *carillon.Job) {
			if slices.ContainsFunc(states, func(state string) bool { return holds(job, state) }) {
				f(job)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeBack removes the jobs of states whose imports were cut off. None of them has been let go, so none has
// fired. One that somebody has changed since stays, and is named. It reports whether there were any.
func (im *importer) takeBack(ctx context.Context, states []string) (found bool, err error) {
	for len(states) > 0 {
		var keys []carillon.Key
		err := im.held(ctx, states, func(job *carillon.Job) {
			if untouched(job, states) {
				keys = append(keys, job.Key())
				im.back[job.Key()] = true
				return
			}
			im.fault(nameOf(job), fmt.Errorf("job %s was changed while an import that was cut off held it, and stays as it is, "+
				"paused: resume or delete it", job.Key()))
		})
		if err != nil || len(keys) == 0 {
			return found, err
		}
		found = true
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(inFlight)
		for i, key := range keys {
			im.told("taking back jobs of an import that was cut off", i, len(keys))
			g.Go(func() error { return im.takeOne(ctx, key, states) })
		}
		if err := g.Wait(); err != nil {
			return found, err
		}
	}
	return found, nil
}

// takeOne removes a job if it is still as it was put. It is read again because a job that replaces it is of
// the same generation.
func (im *importer) takeOne(ctx context.Context, key carillon.Key, states []string) error {
	return im.call(ctx, func(ctx context.Context) error {
		job, err := im.jobs.GetJob(ctx, key)
		if err == nil && untouched(&job, states) {
			_, err = im.jobs.DeleteJob(ctx, key, carillon.IfGeneration(job.Status.Generation))
		}
		if errors.Is(err, carillon.NotFound) || errors.Is(err, carillon.FailedPrecondition) {
			return nil // the next look says what it is
		}
		return err
	})
}

// nameOf returns the key that a job has in Dapr's etcd.
func nameOf(job *carillon.Job) string {
	r, err := daprrecord.AsAsked(job)
	if err != nil {
		return job.Key().String()
	}
	return keyOf(&r)
}

// endOther ends the import of another state that was cut off when its jobs, or those that it had refused
// before, were here: it needs nothing of its source. Then it returns the error about this state.
func (im *importer) endOther(ctx context.Context, m *mark) error {
	step := im.letGo
	if m.Phase == mending {
		step = func(ctx context.Context) error {
			_, err := im.takeBack(ctx, []string{m.State})
			return err
		}
	}
	if err := im.beating(ctx, step); err != nil {
		return err
	}
	next := im.mine.now()
	next.Phase = done
	if err := im.mine.again(ctx, next); err != nil {
		return err
	}
	return im.mine.otherState(&next)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// put puts what is not as it is to be.
func (p *apply) put(cmd *cobra.Command, a app, all []change, results []applied) error {
	warnings := make([][]string, len(all))
	errs, err := p.each(cmd, "applying", len(all), func(ctx context.Context, node *client.Client, i int) error {
		put, err := all[i].apply(ctx, node)
		warnings[i], results[i].Action = put.Warnings, all[i].action()
		return err
	})
	failed := 0
	p.warn(a, all, warnings)
	for i := range all {
		switch {
		case errs == nil:
		case errors.Is(errs[i], errNotSent):
			results[i].Action = "not sent"
		case errs[i] != nil:
			failed++
			results[i].Action, results[i].Error = "failed", errorText(all[i].item.Fault(errs[i]))+doubt(errs[i])
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("not all jobs were applied: %w", err)
	case failed > 0:
		return fmt.Errorf("%d of %d jobs could not be applied", failed, len(all))
	}
	return nil
}

// mostComparisons is how often a job is compared with its file while others change it all the time.
const mostComparisons = 5

// apply makes the job what it is to be. If somebody else was first, it is compared again.
func (c *change) apply(ctx context.Context, node *client.Client) (put carillon.PutResult, err error) {
	for range mostComparisons {
		if c.action() == "unchanged" {
			return carillon.PutResult{}, nil
		}
		was := c.live
		if put, err = c.send(ctx, node); !overtaken(err) {
			return put, err
		}
		if readErr := c.compare(ctx, node); readErr != nil {
			return put, readErr
		}
		if sameGeneration(was, c.live) {
			return put, err // it was refused for something else
		}
	}
	return put, outrun(err)
}

// outrun returns the error of a job that others changed each time. It takes the place of the last refusal,
// which is about a generation that the user has not given.
func outrun(refused error) error {
	e := carillon.Error{Kind: carillon.KindOf(refused), Err: refused}
	e.Message = fmt.Sprintf("others changed it %d times meanwhile; apply again", mostComparisons)
	return &e
}

// overtaken reports whether an error may be that the job is no longer the one that was compared.
func overtaken(err error) bool {
	switch carillon.KindOf(err) {
	case carillon.AlreadyExists, carillon.FailedPrecondition, carillon.NotFound:
		return true
	}
	return false
}

func sameGeneration(a, b *carillon.Job) bool {
	if a == nil || b == nil {
		return a == b
	}
	return statusOf(a).UID == statusOf(b).UID && statusOf(a).Generation == statusOf(b).Generation
}

// compare reads the job again.
func (c *change) compare(ctx context.Context, node *client.Client) error {
	c.live = nil
	switch job, err := node.GetJob(ctx, c.item.Job.Key()); {
	case err == nil:
		c.live = &job
	case carillon.KindOf(err) != carillon.NotFound:
		return err
	}
	c.job = merged(c.item, c.live)
	return nil
}

// send sends the job, for the generation that was compared. A job that there is gets a patch: a pause does
// not make another generation, so a put could resume what was paused a moment ago.
func (c *change) send(ctx context.Context, node *client.Client) (carillon.PutResult, error) {
	if c.live == nil {
		return node.PutJob(ctx, c.job, carillon.IfAbsent())
	}
	patch := carillon.Patch{Fields: c.fields(), Job: c.job, IfGeneration: statusOf(c.live).Generation}
	if c.live.Recurring() && !c.job.Recurring() && c.job.Due.IsZero() {
		patch.Job.Due = atOnce // a patch from a schedule to a run at once has to say so
	}
	return node.PatchJob(ctx, c.job.Key(), patch)
}

// fields are the fields of the job that are the file's: all, but paused and note only if it gives them.
func (c *change) fields() []string {
	without := "payload"
	if c.job.Data.Ref != nil {
		without = "data"
	}
	return slices.DeleteFunc(carillon.PatchFields(), func(field string) bool {
		return field == without || (field == "paused" || field == "note") && !c.item.Gives(field)
	})
}

// doubt says of an error that the change may have been made.
func doubt(err error) string {
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Unknown {
		return " (the change may have been made: apply again)"
	}
	return ""
}

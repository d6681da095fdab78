package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newJobTrigger returns the command `carillon job trigger`.
func newJobTrigger(a app) *cobra.Command {
	var c connection
	return c.inNamespace(a, "trigger NAME", "Run a job now, beside its schedule",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			run, err := node.TriggerJob(ctx, c.key(words[0]))
			return answer{message: wire.RunToProto(&run),
				text: fmt.Sprintf("%s triggered, run %s\n", words[0], run.ID)}, err
		})
}

// newJobPause returns the command `carillon job pause`.
func newJobPause(a app) *cobra.Command {
	return newSetPaused(a, "pause NAME", "Make a job fire nothing until it is resumed", "paused",
		&carillon.PauseOptions{Paused: true})
}

// newJobResume returns the command `carillon job resume`.
func newJobResume(a app) *cobra.Command {
	var p carillon.PauseOptions
	cmd := newSetPaused(a, "resume NAME", "Let a paused job go on from now", "resumed", &p)
	cmd.Flags().BoolVar(&p.CatchUp, "catch-up", false,
		"apply the job's misfire rule to the times that passed meanwhile")
	return cmd
}

func newSetPaused(a app, use, short, did string, p *carillon.PauseOptions) *cobra.Command {
	var c connection
	cmd := c.inNamespace(a, use, short,
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			job, err := node.SetPaused(ctx, c.key(words[0]), *p)
			return answer{message: wire.JobToProto(&job), text: words[0] + " " + did + "\n"}, err
		})
	cmd.Flags().StringVar(&p.Note, "note", "", "`text` kept with the job: why, for example")
	return cmd
}

// newJobSkip returns the command `carillon job skip`.
func newJobSkip(a app) *cobra.Command {
	var c connection
	return c.inNamespace(a, "skip NAME", "Pass over the next scheduled time of a job",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			skip, err := node.SkipRun(ctx, c.key(words[0]))
			return answer{message: wire.SkipToProto(&skip),
				text: fmt.Sprintf("%s skips %s, %s\n", words[0], moment(skip.Time), afterSkip(&skip.Job))}, err
		})
}

// afterSkip describes what comes after a skipped time. A paused job has no next run until it is resumed.
func afterSkip(j *carillon.Job) string {
	switch {
	case j.Paused:
		return "the job is paused"
	case j.Status != nil && !j.Status.NextRun.IsZero():
		return "next run " + moment(j.Status.NextRun)
	}
	return "none is left"
}

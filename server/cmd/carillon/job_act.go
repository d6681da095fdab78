package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// jobBulk holds the flags of commands that act on one job, or on all that the flags select.
type jobBulk struct {
	bulk
	filter jobFilter
	action carillon.BulkJobs // the query aside
}

// command returns the command that does the action.
func (j *jobBulk) command(a app, verb, short, did string, one question) *cobra.Command {
	cmd := &cobra.Command{
		Use:   verb + " NAME | --prefix PREFIX",
		Short: short,
		Args:  j.oneOrFilter,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 1 {
				return j.ask(a, one)(cmd, words)
			}
			return j.many(cmd, a, verb, did)
		},
	}
	cmd.ValidArgsFunction = j.completeJobs
	j.filter.add(cmd)
	check(cmd, j.filter.oneLabel)
	j.add(cmd, "all jobs of the namespace")
	return cmd
}

// many acts on the jobs that the flags select.
func (j *jobBulk) many(cmd *cobra.Command, a app, verb, did string) error {
	j.resolve(cmd)
	b := j.action
	b.Query, b.All = j.filter.resolve(j.namespace), j.all
	return j.run(cmd, a, verb, "jobs", did,
		func(ctx context.Context, node *client.Client, token string, dryRun bool) (carillon.BulkResult, error) {
			b.Query.PageToken, b.Query.PageSize, b.DryRun = token, bulkPageSize, dryRun
			return node.BulkJobs(ctx, b)
		})
}

// newJobTrigger returns the command `carillon job trigger`.
func newJobTrigger(a app) *cobra.Command {
	j := jobBulk{action: carillon.BulkJobs{Action: carillon.JobTrigger}}
	content, overlap := triggerFlags(a.in), choice{words: triggerOverlaps}
	var cmd *cobra.Command
	cmd = j.command(a, "trigger", "Run jobs now, beside their schedules", "triggered",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			o, err := triggerOptions(cmd.Flags(), content)
			if err != nil {
				return answer{}, err
			}
			rule := carillon.Overlap(slices.Index(overlapWords, overlap.String()))
			o.Overlap = &rule
			run, err := node.TriggerJob(ctx, j.key(words[0]), o)
			return answer{message: wire.RunToProto(&run),
				text: fmt.Sprintf("%s triggered, run %s\n", words[0], run.ID)}, err
		})
	cmd.Example = `carillon job trigger reports/nightly
carillon job trigger reports/nightly --data '{"day":"2027-01-31"}' --overlap skip`
	check(cmd, func(cmd *cobra.Command) error {
		for _, name := range []string{"data", "payload", "content-type", "metadata", "overlap"} {
			if f := cmd.Flags().Lookup(name); len(cmd.Flags().Args()) == 0 && f != nil && f.Changed {
				return usagef("--%s is for one job: give its NAME, or leave it out", name)
			}
		}
		return nil
	})
	content.add(cmd)
	overlap.add(cmd, "overlap", "what happens if a run of the job is unfinished: both run, none is begun, or it is cancelled")
	return cmd
}

// triggerFlags are the flags of what a triggered run may have of its own.
func triggerFlags(in io.Reader) jobFlags {
	return slices.DeleteFunc(payloadFlags(in), func(f *jobFlag) bool { return f.field == "labels" })
}

// triggerOptions returns what the given flags set.
func triggerOptions(flags *pflag.FlagSet, content jobFlags) (o carillon.TriggerOptions, err error) {
	var j carillon.Job
	fields, err := content.apply(flags, &j, nil)
	if err == nil {
		err = checkData(&j.Data)
	}
	o.Metadata = j.Metadata
	switch {
	case err != nil:
	case slices.Contains(fields, "data"), slices.Contains(fields, "payload"):
		o.Data = &j.Data
	case slices.Contains(fields, "content_type"):
		err = usagef("--content-type is about --data or --payload, which are missing")
	}
	return o, err
}

// newJobPause returns the command `carillon job pause`.
func newJobPause(a app) *cobra.Command {
	return newSetPaused(a, "pause", "Make jobs fire nothing until they are resumed", "paused",
		&jobBulk{action: carillon.BulkJobs{Action: carillon.JobPause}})
}

// newJobResume returns the command `carillon job resume`.
func newJobResume(a app) *cobra.Command {
	j := jobBulk{action: carillon.BulkJobs{Action: carillon.JobResume}}
	cmd := newSetPaused(a, "resume", "Let paused jobs go on from now", "resumed", &j)
	cmd.Flags().BoolVar(&j.action.CatchUp, "catch-up", false,
		"apply the job's misfire rule to the times that passed meanwhile")
	return cmd
}

func newSetPaused(a app, verb, short, did string, j *jobBulk) *cobra.Command {
	cmd := j.command(a, verb, short, did,
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			job, err := node.SetPaused(ctx, j.key(words[0]), carillon.PauseOptions{Note: j.action.Note,
				Paused: j.action.Action == carillon.JobPause, CatchUp: j.action.CatchUp})
			return answer{message: wire.JobToProto(&job), text: words[0] + " " + did + "\n"}, err
		})
	cmd.Flags().StringVar(&j.action.Note, "note", "", "`text` kept with the job: why, for example")
	return cmd
}

// newJobSkip returns the command `carillon job skip`.
func newJobSkip(a app) *cobra.Command {
	var c connection
	cmd := c.inNamespace(a, "skip NAME", "Pass over the next scheduled time of a job",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			skip, err := node.SkipRun(ctx, c.key(words[0]))
			return answer{message: wire.SkipToProto(&skip),
				text: fmt.Sprintf("%s skips %s, %s\n", words[0], moment(skip.Time), afterSkip(&skip.Job))}, err
		})
	cmd.ValidArgsFunction = c.completeJobs
	return cmd
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

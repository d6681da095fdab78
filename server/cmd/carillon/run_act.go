package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// runRedrive holds the flags of `carillon run redrive`.
type runRedrive struct {
	connection
	confirmation
	job string
	all bool
}

// newRunRedrive returns the command `carillon run redrive`.
func newRunRedrive(a app) *cobra.Command {
	var r runRedrive
	cmd := &cobra.Command{
		Use:   "redrive ID | --job NAME | --all",
		Short: "Give dead runs a fresh set of attempts under the same id",
		Args: func(cmd *cobra.Command, words []string) error {
			ways := len(words)
			for _, f := range []string{"job", "all"} {
				if cmd.Flags().Changed(f) {
					ways++
				}
			}
			if ways != 1 {
				return usagef("give one id, --job or --all\nUsage: %s", cmd.UseLine())
			}
			if flag := r.needless(); flag != "" && !r.all {
				return usagef("--%s has an effect with --all only", flag)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 0 {
				return r.many(cmd, a)
			}
			return r.call(cmd, func(ctx context.Context, node *client.Client) error {
				return r.one(ctx, cmd, a, node, words[0])
			})
		},
	}
	cmd.Flags().StringVar(&r.job, "job", "", "the dead runs of this `job`")
	cmd.Flags().BoolVar(&r.all, "all", false, "all dead runs of the namespace")
	r.confirmation.add(cmd)
	r.connection.add(cmd)
	addOutput(cmd)
	return cmd
}

func (r *runRedrive) one(ctx context.Context, cmd *cobra.Command, a app, node carillon.Runs, id string) error {
	run, err := node.RedriveRun(ctx, r.namespace, id)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printMessage(a.out, wire.RunToProto(&run))
	}
	fmt.Fprintf(a.out, "run %s redriven\n", id)
	return nil
}

// many redrives the dead runs of a job or of the namespace. It asks between two calls, so that no call waits
// for the user's answer.
func (r *runRedrive) many(cmd *cobra.Command, a app) error {
	var runs many
	if err := r.call(cmd, func(ctx context.Context, node *client.Client) error { return r.count(ctx, node, &runs) }); err != nil {
		return err
	}
	if r.all {
		if do, err := r.confirm(cmd, a, "redrive", "dead runs", &runs); !do || err != nil {
			return err
		}
	}
	return r.call(cmd, func(ctx context.Context, node *client.Client) error {
		n, err := node.RedriveRuns(ctx, r.namespace, r.job)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printMessage(a.out, &pb.RedriveRunsResponse{Redriven: uint32(n)})
		}
		fmt.Fprintf(a.out, "%d redriven\n", n)
		return nil
	})
}

// count counts the selected dead runs, unless the number will not be shown.
func (r *runRedrive) count(ctx context.Context, node carillon.Runs, runs *many) error {
	if r.yes || !r.all {
		return nil
	}
	dead := carillon.RunDead
	q := carillon.RunQuery{Namespace: r.namespace, Job: r.job, Status: &dead, PageSize: carillon.MaxBatch}
	for {
		page, err := node.ListRuns(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			if !runs.add(page.Runs[i].Job + " of " + moment(page.Runs[i].Scheduled)) {
				return nil
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			return nil
		}
	}
}

// newRunCancel returns the command `carillon run cancel`.
func newRunCancel(a app) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "End a run that has not finished",
		Args:  arguments(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return c.call(cmd, func(ctx context.Context, node *client.Client) error {
				cancelled, err := node.CancelRun(ctx, c.namespace, words[0])
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printMessage(a.out,
						&pb.CancelRunResponse{Prevented: cancelled.Prevented, Interrupted: cancelled.Interrupted})
				}
				fmt.Fprintf(a.out, "run %s cancelled, %s\n", words[0], cancelText(cancelled))
				return nil
			})
		},
	}
	c.add(cmd)
	addOutput(cmd)
	return cmd
}

func cancelText(c carillon.CancelResult) string {
	switch {
	case c.Prevented:
		return "before it began"
	case c.Interrupted:
		return "its attempt was told to stop"
	default:
		return "between two attempts"
	}
}

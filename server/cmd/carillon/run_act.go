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
			if len(words) == 1 {
				return r.ask(a, r.one)(cmd, words)
			}
			if r.all {
				if do, err := r.confirm(cmd, a, &r.connection, "redrive", "dead runs", r.names); !do || err != nil {
					return err
				}
			}
			return r.ask(a, r.many)(cmd, words)
		},
	}
	cmd.Flags().StringVar(&r.job, "job", "", "the dead runs of this `job`")
	cmd.Flags().BoolVar(&r.all, "all", false, "all dead runs of the namespace")
	r.confirmation.add(cmd)
	r.connection.add(cmd)
	return cmd
}

// one redrives the run of the id.
func (r *runRedrive) one(ctx context.Context, node *client.Client, words []string) (answer, error) {
	run, err := node.RedriveRun(ctx, r.namespace, words[0])
	return answer{message: wire.RunToProto(&run), text: fmt.Sprintf("run %s redriven\n", words[0])}, err
}

// many redrives the dead runs of a job or of the namespace.
func (r *runRedrive) many(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	n, err := node.RedriveRuns(ctx, r.namespace, r.job)
	return answer{message: &pb.RedriveRunsResponse{Redriven: uint32(n)},
		text: fmt.Sprintf("%d redriven\n", n)}, err
}

// names returns a page of the dead runs of the namespace, for people.
func (r *runRedrive) names(ctx context.Context, node *client.Client, token string, size int) (
	names []string, next string, err error,
) {
	dead := carillon.RunDead
	page, err := node.ListRuns(ctx, carillon.RunQuery{Namespace: r.namespace, Status: &dead, PageSize: size,
		PageToken: token})
	for i := range page.Runs {
		names = append(names, page.Runs[i].Job+" of "+moment(page.Runs[i].Scheduled))
	}
	return names, page.NextPageToken, err
}

// newRunCancel returns the command `carillon run cancel`.
func newRunCancel(a app) *cobra.Command {
	var c connection
	return c.inNamespace(a, "cancel ID", "End a run that has not finished",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			cancelled, err := node.CancelRun(ctx, c.namespace, words[0])
			return answer{message: &pb.CancelRunResponse{Prevented: cancelled.Prevented,
				Interrupted: cancelled.Interrupted},
				text: fmt.Sprintf("run %s cancelled, %s\n", words[0], cancelText(cancelled))}, err
		})
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

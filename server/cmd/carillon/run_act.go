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

// runBulk holds the flags of `carillon run cancel` and `carillon run redrive`.
type runBulk struct {
	bulk
	filter   runFilter
	statuses []carillon.RunStatus // that the action can be done to
	action   carillon.RunAction
}

// newRunRedrive returns the command `carillon run redrive`.
func newRunRedrive(a app) *cobra.Command {
	r := runBulk{action: carillon.RunRedrive, statuses: []carillon.RunStatus{carillon.RunDead}}
	r.whole = func(cmd *cobra.Command) question {
		if !givenAlone(cmd, "job") && !givenAlone(cmd, "all") {
			return nil
		}
		return func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			n, err := node.RedriveRuns(ctx, r.namespace, r.filter.query.Job)
			return answer{message: &pb.RedriveRunsResponse{Redriven: uint32(n)},
				text: fmt.Sprintf("%d redriven\n", n)}, err
		}
	}
	cmd := r.command(a, "redrive", "Give dead runs a fresh set of attempts under the same id", "redriven",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			id, err := wholeID(ctx, node, r.namespace, words[0])
			if err != nil {
				return answer{}, err
			}
			run, err := node.RedriveRun(ctx, r.namespace, id)
			return answer{message: wire.RunToProto(&run), text: fmt.Sprintf("run %s redriven\n", words[0])}, err
		})
	cmd.Long += "\nIt asks first, unless it is given an ID, or --job and no other flag that says which are meant."
	return cmd
}

// newRunCancel returns the command `carillon run cancel`.
func newRunCancel(a app) *cobra.Command {
	r := runBulk{action: carillon.RunCancel,
		statuses: []carillon.RunStatus{carillon.RunStaged, carillon.RunRunning, carillon.RunRetrying}}
	return r.command(a, "cancel", "End runs that have not finished", "cancelled",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			id, err := wholeID(ctx, node, r.namespace, words[0])
			if err != nil {
				return answer{}, err
			}
			cancelled, err := node.CancelRun(ctx, r.namespace, id)
			return answer{message: &pb.CancelRunResponse{Prevented: cancelled.Prevented,
				Interrupted: cancelled.Interrupted},
				text: fmt.Sprintf("run %s cancelled, %s\n", words[0], cancelText(cancelled))}, err
		})
}

// command returns the command that does the action, to one run or to all that the flags select.
func (r *runBulk) command(a app, verb, short, did string, one question) *cobra.Command {
	cmd := &cobra.Command{
		Use:   verb + " ID | --job NAME | --all",
		Short: short,
		Args:  r.oneOrFilter,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 1 {
				return r.ask(a, one)(cmd, words)
			}
			r.resolve(cmd)
			if r.action == carillon.RunRedrive && givenAlone(cmd, "job") && !r.dryRun {
				r.yes = true // it takes nothing away, and one job is named
			}
			q, err := r.filter.resolve(r.namespace, r.statuses)
			if err != nil {
				return err
			}
			return r.run(cmd, a, verb, "runs", did,
				func(ctx context.Context, node *client.Client, token string, dryRun bool) (carillon.BulkResult, error) {
					q.PageToken, q.PageSize = token, bulkPageSize
					return node.BulkRuns(ctx, carillon.BulkRuns{Query: q, Action: r.action, All: r.all, DryRun: dryRun})
				})
		},
	}
	cmd.Long = short + ".\n" + idHelp
	cmd.ValidArgsFunction = r.first(r.runIDs)
	r.filter.add(cmd, true, wordsOf(r.statuses...))
	r.completeQueues(cmd, "queue")
	r.completeJobFlag(cmd, "job")
	r.add(cmd, "all runs of the namespace to which it can be done")
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

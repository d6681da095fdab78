package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// runList holds the flags of `carillon run list` and `carillon job runs`.
type runList struct {
	connection
	status choice
	paging
}

// newRunList returns the command `carillon run list`.
func newRunList(a app) *cobra.Command {
	l := runList{status: choice{words: []string{carillon.RunDead.String()}}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead runs of all jobs, newest first",
		Long:  "List the dead runs of all jobs of the namespace, newest first. The finished runs of one job are in `carillon job runs`.",
		Args:  arguments(0, 0),
		RunE: l.ask(a, func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			return l.list(ctx, node, carillon.RunQuery{Namespace: l.namespace})
		}),
	}
	l.addFlags(cmd, "; across jobs only dead is kept in an index")
	return cmd
}

func (l *runList) addFlags(cmd *cobra.Command, hint string) {
	l.status.add(cmd, "status", "runs that ended so"+hint)
	l.paging.add(cmd)
	l.connection.add(cmd)
}

// list reads pages until there are enough of the runs that the query finds.
func (l *runList) list(ctx context.Context, node *client.Client, q carillon.RunQuery) (answer, error) {
	if n := slices.Index(finishedWords, l.status.String()); n >= 0 {
		q.Status = &finishedStatuses[n]
	}
	runs, rest, err := collect(l.paging, func(token string, size int) ([]carillon.Run, string, error) {
		q.PageToken, q.PageSize = token, size
		page, err := node.ListRuns(ctx, q)
		return page.Runs, page.NextPageToken, err
	})
	got := answer{message: &pb.ListRunsResponse{Runs: wire.RunsToProto(runs), NextPageToken: rest},
		text: table([]string{"ID", "JOB", "STATUS", "SCHEDULED", "FINISHED", "ATTEMPTS", "WHY"}, runs, runRow)}
	if rest != "" {
		got.note = fmt.Sprintf("These are the newest %d; --limit 0 shows all.", len(runs))
	}
	return got, err
}

func runRow(r *carillon.Run) []string {
	return []string{r.ID, r.Job, r.Status.String(), moment(r.Scheduled), dash(moment(r.Finished)),
		strconv.Itoa(r.Attempt), dash(clip(whyText(r), 60))}
}

// whyText returns why a run failed or did not run.
func whyText(r *carillon.Run) string {
	if r.Skipped > 1 {
		return fmt.Sprintf("%s (%d times from %s)", r.Reason, r.Skipped, moment(r.From))
	}
	if r.Reason != "" || len(r.Errors) == 0 {
		return r.Reason
	}
	return r.Errors[len(r.Errors)-1].Message
}

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// runList is the flags of `carillon run list` and `carillon job runs`.
type runList struct {
	connection
	status choice
	limit  int
}

// newRunList is `carillon run list`.
func newRunList(a app) *cobra.Command {
	l := runList{status: choice{words: statusWords, chosen: int(carillon.RunDead)}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead runs of all jobs, newest first",
		Long:  "List the dead runs of all jobs of the namespace, newest first. The finished runs of one job are in `carillon job runs`.",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.call(cmd, func(ctx context.Context, node *client.Client) error {
				return l.show(ctx, cmd, a, node, carillon.RunQuery{Namespace: l.namespace})
			})
		},
	}
	l.addFlags(cmd, "; across jobs only dead is kept in an index")
	return cmd
}

func (l *runList) addFlags(cmd *cobra.Command, hint string) {
	cmd.Flags().Var(&l.status, "status", "runs that ended so"+hint)
	complete(cmd, "status", statusWords)
	cmd.Flags().IntVar(&l.limit, "limit", 100, "at most so many; 0 is all")
	l.add(cmd)
	addOutput(cmd)
}

// show prints what the query finds.
func (l *runList) show(ctx context.Context, cmd *cobra.Command, a app, node carillon.Runs, q carillon.RunQuery) error {
	if l.status.chosen >= 0 {
		status := carillon.RunStatus(l.status.chosen)
		q.Status = &status
	}
	runs, more, err := l.collect(ctx, node, q)
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printMessage(a.out, &pb.ListRunsResponse{Runs: wire.RunsToProto(runs)})
	}
	if more {
		fmt.Fprintf(a.errs, "These are the newest %d; --limit 0 shows all.\n", len(runs))
	}
	return printTable(a.out, []string{"ID", "JOB", "STATUS", "SCHEDULED", "FINISHED", "ATTEMPTS", "WHY"}, runRows(runs))
}

// collect reads pages until there are enough runs.
func (l *runList) collect(ctx context.Context, node carillon.Runs, q carillon.RunQuery) (runs []carillon.Run, more bool, err error) {
	for {
		q.PageSize = pageSize(l.limit, len(runs))
		page, err := node.ListRuns(ctx, q)
		if err != nil {
			return nil, false, err
		}
		runs = append(runs, page.Runs...)
		q.PageToken = page.NextPageToken
		if q.PageToken == "" || (l.limit > 0 && len(runs) >= l.limit) {
			return runs, q.PageToken != "", nil
		}
	}
}

func runRows(runs []carillon.Run) [][]string {
	rows := make([][]string, 0, len(runs))
	for i := range runs {
		r := &runs[i]
		rows = append(rows, []string{r.ID, r.Job, r.Status.String(), moment(r.Scheduled), dash(moment(r.Finished)),
			strconv.Itoa(r.Attempt), dash(clip(whyText(r), 60))})
	}
	return rows
}

// whyText is why a run failed or did not run.
func whyText(r *carillon.Run) string {
	if r.Skipped > 1 {
		return fmt.Sprintf("%s (%d times from %s)", r.Reason, r.Skipped, moment(r.From))
	}
	if r.Reason != "" || len(r.Errors) == 0 {
		return r.Reason
	}
	return r.Errors[len(r.Errors)-1].Message
}

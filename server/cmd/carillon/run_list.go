package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	cmd := newRuns(a, "list", "List the dead runs of all jobs, newest first",
		"runs that ended so; across jobs only dead is kept in an index",
		choice{words: []string{carillon.RunDead.String()}})
	cmd.Long = "List the dead runs of all jobs of the namespace, newest first. The finished runs of one job are in\n" +
		"`carillon job runs`."
	return cmd
}

// newJobRuns returns the command `carillon job runs`.
func newJobRuns(a app) *cobra.Command {
	return newRuns(a, "runs NAME", "Show the finished runs of a job, newest first", "runs that ended so",
		choice{words: finishedWords, chosen: -1})
}

func newRuns(a app, use, short, statusUsage string, status choice) *cobra.Command {
	l := runList{status: status}
	cmd := l.inNamespace(a, use, short, l.list)
	l.status.add(cmd, "status", statusUsage)
	l.paging.add(cmd)
	return cmd
}

// list reads pages until there are enough finished runs of a job, or of all if none is named.
func (l *runList) list(ctx context.Context, node *client.Client, words []string) (answer, error) {
	q := carillon.RunQuery{Namespace: l.namespace, Job: strings.Join(words, "")}
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
	if r.Skipped.Times > 1 {
		return fmt.Sprintf("%s (%d times from %s)", r.Reason, r.Skipped.Times, moment(r.Skipped.From))
	}
	if r.Reason != "" || len(r.Errors) == 0 {
		return r.Reason
	}
	return r.Errors[len(r.Errors)-1].Message
}

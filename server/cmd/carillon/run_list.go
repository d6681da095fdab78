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

// runList holds the flags of `carillon run list` and `carillon job runs`.
type runList struct {
	connection
	filter runFilter
	paging
}

// newRunList returns the command `carillon run list`.
func newRunList(a app) *cobra.Command {
	var l runList
	cmd := l.inNamespace(a, "list", "List runs in any state, of all jobs", l.list)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List the runs of the namespace: those that are not finished, in the order of their jobs' names, and then the finished ones,
newest first. With --status scheduled the next run of each job comes before them, in the order of when they are due, and then
those of jobs of which a run goes on. The list is what is stored: an attempt shows about a second after it was handed out.`
	cmd.Example = `carillon run list --status running --status retrying
carillon run list --status failed --status dead --from -12h
carillon run list --status scheduled --until 1h`
	l.filter.add(cmd, true, statusWords)
	l.paging.add(cmd)
	return cmd
}

// newJobRuns returns the command `carillon job runs`.
func newJobRuns(a app) *cobra.Command {
	var l runList
	cmd := l.inNamespace(a, "runs NAME", "Show the runs of a job: unfinished ones, then its history, newest first",
		l.list)
	l.filter.add(cmd, false, statusWords)
	l.paging.add(cmd)
	return cmd
}

// list reads pages until there are enough runs, of all jobs if none is named.
func (l *runList) list(ctx context.Context, node *client.Client, words []string) (answer, error) {
	q, err := l.filter.resolve(l.namespace, runStatuses)
	if err != nil {
		return answer{}, err
	}
	if len(words) == 1 {
		q.Job = words[0]
	}
	runs, rest, err := collect(l.paging, func(token string, size int) ([]carillon.Run, string, error) {
		q.PageToken, q.PageSize = token, size
		page, err := node.ListRuns(ctx, q)
		return page.Runs, page.NextPageToken, err
	})
	got := answer{message: &pb.ListRunsResponse{Runs: wire.RunsToProto(runs), NextPageToken: rest},
		text: table([]string{"ID", "JOB", "STATUS", "QUEUE", "SCHEDULED", "DUE", "FINISHED", "ATTEMPTS", "WHY"},
			runs, runRow)}
	if rest != "" {
		got.note = fmt.Sprintf("These are the first %d; --limit 0 shows all.", len(runs))
	}
	return got, err
}

func runRow(r *carillon.Run) []string {
	return []string{r.ID, r.Job, r.Status.String(), dash(clip(r.Queue, 40)), moment(r.Scheduled),
		dash(moment(r.Due)), dash(moment(r.Finished)), strconv.Itoa(r.Attempt), dash(clip(whyText(r), 60))}
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

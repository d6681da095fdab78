package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

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
	listing
}

// newRunList returns the command `carillon run list`.
func newRunList(a app) *cobra.Command {
	var l runList
	cmd := l.inNamespace(a, "list", "List runs in any state, of all jobs", nil)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List the runs of the namespace: those that are not finished, in the order of their jobs' names, and then the finished ones,
newest first. With --status scheduled the next run of each job comes before them, in the order of when they are due, and then
those of jobs of which a run goes on. The list is what is stored: an attempt shows about a second after it was handed out.`
	cmd.Example = `carillon run list --status running --status retrying
carillon run list --status failed --status dead --from -12h
carillon run list --status scheduled --until 1h`
	l.filter.add(cmd, true, statusWords)
	l.completeQueues(cmd, "queue")
	l.completeJobFlag(cmd, "job")
	l.listing.add(cmd, a, &l.connection, runColumns.words(), l.list)
	return cmd
}

// newJobRuns returns the command `carillon job runs`.
func newJobRuns(a app) *cobra.Command {
	var l runList
	cmd := l.inNamespace(a, "runs NAME", "Show the runs of a job: unfinished ones, then its history, newest first", nil)
	cmd.ValidArgsFunction = l.completeJobs
	l.filter.add(cmd, false, statusWords)
	l.completeQueues(cmd, "queue")
	l.listing.add(cmd, a, &l.connection, runColumns.words(), l.list)
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
	runs, rest, err := collectSorted(l.listing, runColumns,
		func(token string, size int) ([]carillon.Run, string, error) {
			q.PageToken, q.PageSize = token, size
			page, err := node.ListRuns(ctx, q)
			return page.Runs, page.NextPageToken, err
		})
	return answer{message: &pb.ListRunsResponse{Runs: wire.RunsToProto(runs), NextPageToken: rest},
		grid: runColumns.grid(runs), note: moreNote(len(runs), rest),
		names: namesOf(runs, func(r *carillon.Run) string { return r.ID })}, err
}

var runColumns = columns[carillon.Run]{
	{gridColumn: gridColumn{name: "ID"}, cell: func(r *carillon.Run) string { return shortID(r.ID) }},
	{gridColumn: gridColumn{name: "JOB"}, cell: func(r *carillon.Run) string { return r.Job }},
	{gridColumn: gridColumn{name: "STATUS"}, cell: func(r *carillon.Run) string { return r.Status.String() },
		paint: func(r *carillon.Run) paint { return statusPaint(r.Status.String()) }},
	{gridColumn: gridColumn{name: "QUEUE", clip: true, less: true},
		cell: func(r *carillon.Run) string { return dash(r.Queue) }},
	timeColumn("SCHEDULED", func(r *carillon.Run) time.Time { return r.Scheduled }),
	timeColumn("DUE", dueAgain),
	{gridColumn: gridColumn{name: "TOOK"},
		cell: func(r *carillon.Run) string { return dash(runTook(r, time.Now())) },
		order: func(a,
			b *carillon.Run) int {
			return cmp.Compare(a.Finished.Sub(a.Started), b.Finished.Sub(b.Started))
		}},
	numberColumn("ATTEMPTS", func(r *carillon.Run) int { return r.Attempt }),
	textColumn("WHY", func(r *carillon.Run) string { return clip(whyText(r), 200) }),
	{gridColumn: gridColumn{name: "WORKER", wide: true},
		cell: func(r *carillon.Run) string { return dash(r.Worker) }},
	wideTime("SCHEDULED AT", func(r *carillon.Run) time.Time { return r.Scheduled }),
	wideTime("FINISHED AT", func(r *carillon.Run) time.Time { return r.Finished }),
	{gridColumn: gridColumn{name: "WHOLE ID", wide: true}, cell: func(r *carillon.Run) string { return r.ID }},
}

// dueAgain is when the next attempt of an unfinished run is due.
func dueAgain(r *carillon.Run) time.Time {
	if !r.Finished.IsZero() {
		return time.Time{}
	}
	return r.Due
}

// runTook is how long a run took from its scheduled time to its end, or the attempt in force has taken so
// far.
func runTook(r *carillon.Run, now time.Time) string {
	switch {
	case !r.Finished.IsZero() && !r.Started.IsZero():
		return took(r.Started, r.Finished, now)
	case r.Status == carillon.RunRunning:
		return took(r.Started, time.Time{}, now)
	}
	return ""
}

func statusPaint(status string) paint {
	switch status {
	case "succeeded":
		return green
	case "failed", "dead":
		return red
	case "retrying", "staged":
		return yellow
	case "running":
		return blue
	case "skipped", "cancelled":
		return grey
	}
	return plain
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

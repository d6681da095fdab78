package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// jobList holds the flags of `carillon job list`.
type jobList struct {
	connection
	filter jobFilter
	listing
}

// newJobList returns the command `carillon job list`.
func newJobList(a app) *cobra.Command {
	var l jobList
	cmd := l.inNamespace(a, "list", "List jobs in the order of their names", nil)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List jobs in the order of their names. The list is what is stored; why a job does not run, "carillon job describe" says. One-shots
are gone once they have run, and so are jobs that recur when they are over; "carillon run list" shows what became of them.`
	l.filter.add(cmd)
	l.filter.several(cmd)
	l.listing.add(cmd, a, &l.connection, jobColumns.words(), l.list)
	return cmd
}

// list reads pages until there are enough jobs. A page goes from the client to the API of the node that is
// asked. That node merges what the store has of all partitions (server/internal/engine/list.go): a list is
// not forwarded to other nodes.
func (l *jobList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	q := l.filter.resolve(l.namespace)
	jobs, rest, err := collectSorted(l.listing, jobColumns,
		func(token string, size int) ([]carillon.Job, string, error) {
			q.PageToken, q.PageSize = token, size
			page, err := node.ListJobs(ctx, q)
			jobs := slices.DeleteFunc(page.Jobs, func(j carillon.Job) bool { return !l.filter.selects(&j) })
			return jobs, page.NextPageToken, err
		})
	got := answer{message: &pb.ListJobsResponse{Jobs: wire.JobsToProto(jobs), NextPageToken: rest},
		grid: jobColumns.grid(jobs), note: moreNote(len(jobs), rest), names: namesOf(jobs, jobName)}
	return got, err
}

func jobName(j *carillon.Job) string { return j.Name }

// statusOf returns what became of a job; a job without a status has none.
func statusOf(j *carillon.Job) *carillon.JobStatus { return cmp.Or(j.Status, &carillon.JobStatus{}) }

var jobColumns = columns[carillon.Job]{
	{gridColumn: gridColumn{name: "NAME"}, cell: jobName},
	{gridColumn: gridColumn{name: "SCHEDULE", clip: true},
		cell: func(j *carillon.Job) string { return dash(j.Schedule) }},
	{gridColumn: gridColumn{name: "TIME ZONE", wide: true},
		cell: func(j *carillon.Job) string { return dash(j.TimeZone) }},
	{gridColumn: gridColumn{name: "TARGET", clip: true},
		cell: func(j *carillon.Job) string { return dash(targetText(j.Target)) }},
	{gridColumn: gridColumn{name: "PHASE"},
		cell:  func(j *carillon.Job) string { return statusOf(j).Phase.String() },
		paint: func(j *carillon.Job) paint { return phasePaint(statusOf(j).Phase) }},
	timeColumn("NEXT RUN", func(j *carillon.Job) time.Time { return statusOf(j).NextRun }),
	{gridColumn: gridColumn{name: "LAST", less: true},
		cell:  func(j *carillon.Job) string { return dash(lastStatus(j)) },
		paint: func(j *carillon.Job) paint { return statusPaint(lastStatus(j)) }},
	{gridColumn: gridColumn{name: "FIRED", less: true}, cell: firedText,
		order: func(a, b *carillon.Job) int {
			return cmp.Compare(statusOf(a).Counters.Fired, statusOf(b).Counters.Fired)
		}},
	{gridColumn: gridColumn{name: "LABELS", wide: true},
		cell: func(j *carillon.Job) string { return dash(labelsText(j.Labels)) }},
	wideTime("NEXT RUN AT", func(j *carillon.Job) time.Time { return statusOf(j).NextRun }),
	wideTime("CREATED", func(j *carillon.Job) time.Time { return statusOf(j).Created }),
}

func firedText(j *carillon.Job) string { return strconv.FormatUint(statusOf(j).Counters.Fired, 10) }

// lastStatus is the status of the last run; "" if there is none.
func lastStatus(j *carillon.Job) string {
	if r := statusOf(j).LastRun; r != nil {
		return r.Status.String()
	}
	return ""
}

func phasePaint(p carillon.Phase) paint {
	switch p {
	case carillon.PhaseRunning:
		return blue
	case carillon.PhaseRetrying, carillon.PhaseStaged:
		return yellow
	case carillon.PhasePaused, carillon.PhaseWaiting:
		return grey
	}
	return plain
}

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
	wide bool // -o wide: it says why jobs wait
}

// newJobList returns the command `carillon job list`.
func newJobList(a app) *cobra.Command {
	var l jobList
	cmd := l.inNamespace(a, "list", "List jobs in the order of their names", nil)
	cmd.Aliases = []string{"ls"}
	cmd.Long = `List jobs in the order of their names. The list is what is stored; why a job does not run, -o wide says of the first
100 that are due or have runs beside their own, and "carillon job describe" of one. One-shots
are gone once they have run, and so are jobs that recur when they are over; "carillon run list" shows what became of them.`
	l.filter.add(cmd)
	l.filter.several(cmd)
	l.listing.add(cmd, a, &l.connection, jobColumns.words(), l.list)
	check(cmd, func(cmd *cobra.Command) error {
		l.wide = cmd.Flags().Lookup(outputFlag).Value.String() == "wide"
		return nil
	})
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
	if err == nil && l.wide {
		err = askWhy(ctx, node, jobs)
	}
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
	{gridColumn: gridColumn{name: "WHY", wide: true},
		cell: func(j *carillon.Job) string { return dash(jobWaits(j)) }},
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

// mostAsked is of how many jobs of a list their nodes are asked why they wait.
const mostAsked = 100

// askWhy asks for what a list does not tell of its first jobs that are due or have runs beside their own: why
// they wait.
func askWhy(ctx context.Context, node *client.Client, jobs []carillon.Job) error {
	asked := 0
	for i := range jobs {
		s := statusOf(&jobs[i])
		due := s.Hold == nil && !s.NextRun.IsZero() && s.NextRun.Before(time.Now())
		if asked == mostAsked || !due && s.PendingCount == 0 {
			continue
		}
		asked++
		switch job, err := node.GetJob(ctx, jobs[i].Key()); {
		case err == nil:
			jobs[i] = job
		case carillon.KindOf(err) != carillon.NotFound: // it has ended meanwhile
			return err
		}
		if err := askPending(ctx, node, statusOf(&jobs[i])); err != nil {
			return err
		}
	}
	return nil
}

// askPending asks why the oldest that waits of the runs beside the job's own does.
func askPending(ctx context.Context, node *client.Client, s *carillon.JobStatus) error {
	i := slices.IndexFunc(s.Pending, func(r carillon.Run) bool { return r.Status != carillon.RunRunning })
	if i < 0 {
		return nil
	}
	r, err := node.GetRun(ctx, s.Pending[i].Namespace, s.Pending[i].ID)
	if err == nil {
		s.Pending[i].Hold = r.Hold
	}
	if carillon.KindOf(err) == carillon.NotFound {
		return nil // it is no longer kept
	}
	return err
}

// jobWaits says why a job waits, and why the oldest of the runs beside its own does.
func jobWaits(j *carillon.Job) string {
	s := statusOf(j)
	var own, besides string
	if s.Hold != nil && s.Hold.Code != carillon.HoldNotDue {
		own = s.Hold.Text
	}
	for _, r := range s.Pending {
		if r.Hold != nil {
			besides = "beside it: " + r.Hold.Text
			break
		}
	}
	return commas(own, besides)
}

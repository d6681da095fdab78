package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// jobList holds the flags of `carillon job list`.
type jobList struct {
	connection
	prefix string
	label  string
	phase  choice
	paging
}

// newJobList returns the command `carillon job list`.
func newJobList(a app) *cobra.Command {
	l := jobList{phase: choice{words: phaseWords, chosen: -1}}
	cmd := l.inNamespace(a, "list", "List jobs in the order of their names", l.list)
	cmd.Aliases = []string{"ls"}
	cmd.Flags().StringVar(&l.prefix, "prefix", "", "names that begin with it")
	cmd.Flags().StringVar(&l.label, "label", "", "jobs with the label: `key` or key=value")
	l.phase.add(cmd, "phase", "jobs that stand there")
	l.paging.add(cmd)
	return cmd
}

// list reads pages until there are enough jobs. A page goes from the client to the API of the node that is
// asked. That node merges what the store has of all partitions (server/internal/engine/list.go): a list is
// not forwarded to other nodes.
func (l *jobList) list(ctx context.Context, node *client.Client, _ []string) (answer, error) {
	q := carillon.JobQuery{Namespace: l.namespace, Prefix: l.prefix, Label: l.label}
	if l.phase.chosen >= 0 {
		phase := carillon.Phase(l.phase.chosen)
		q.Phase = &phase
	}
	jobs, rest, err := collect(l.paging, func(token string, size int) ([]carillon.Job, string, error) {
		q.PageToken, q.PageSize = token, size
		page, err := node.ListJobs(ctx, q)
		return page.Jobs, page.NextPageToken, err
	})
	got := answer{message: &pb.ListJobsResponse{Jobs: wire.JobsToProto(jobs), NextPageToken: rest},
		text: table([]string{"NAME", "SCHEDULE", "TARGET", "PHASE", "NEXT RUN", "FIRED"}, jobs, jobRow)}
	if rest != "" {
		got.note = fmt.Sprintf("These are the first %d; --limit 0 shows all.", len(jobs))
	}
	return got, err
}

func jobRow(j *carillon.Job) []string {
	s := cmp.Or(j.Status, &carillon.JobStatus{})
	return []string{j.Name, dash(j.Schedule), clip(targetText(j.Target), 40), s.Phase.String(),
		dash(moment(s.NextRun)), strconv.FormatUint(s.Counters.Fired, 10)}
}

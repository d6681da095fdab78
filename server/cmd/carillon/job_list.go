package main

import (
	"context"
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
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List jobs in the order of their names",
		Args:    arguments(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.run(cmd, a) },
	}
	cmd.Flags().StringVar(&l.prefix, "prefix", "", "names that begin with it")
	cmd.Flags().StringVar(&l.label, "label", "", "jobs with the label: `key` or key=value")
	cmd.Flags().Var(&l.phase, "phase", "jobs that stand there")
	complete(cmd, "phase", phaseWords)
	l.paging.add(cmd)
	l.connection.add(cmd)
	addOutput(cmd)
	return cmd
}

func (l *jobList) run(cmd *cobra.Command, a app) error {
	return l.call(cmd, func(ctx context.Context, node *client.Client) error {
		jobs, rest, err := l.jobs(ctx, node)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printMessage(a.out, &pb.ListJobsResponse{Jobs: wire.JobsToProto(jobs), NextPageToken: rest})
		}
		if rest != "" {
			a.sayf("These are the first %d; --limit 0 shows all.", len(jobs))
		}
		return printTable(a.out, []string{"NAME", "SCHEDULE", "TARGET", "PHASE", "NEXT RUN", "FIRED"}, jobRows(jobs))
	})
}

// jobs reads pages until there are enough jobs; rest is the token of what is left.
func (l *jobList) jobs(ctx context.Context, node carillon.Jobs) (jobs []carillon.Job, rest string, err error) {
	q := carillon.JobQuery{Namespace: l.namespace, Prefix: l.prefix, Label: l.label}
	if l.phase.chosen >= 0 {
		phase := carillon.Phase(l.phase.chosen)
		q.Phase = &phase
	}
	rest, err = l.collect(func(token string, size int) (int, string, error) {
		q.PageToken, q.PageSize = token, size
		page, err := node.ListJobs(ctx, q)
		jobs = append(jobs, page.Jobs...)
		return len(page.Jobs), page.NextPageToken, err
	})
	return jobs, rest, err
}

func jobRows(jobs []carillon.Job) [][]string {
	rows := make([][]string, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		s := j.Status
		if s == nil {
			s = &carillon.JobStatus{}
		}
		rows = append(rows, []string{j.Name, dash(j.Schedule), clip(targetText(j.Target), 40),
			s.Phase.String(), dash(moment(s.NextRun)),
			strconv.FormatUint(s.Counters.Fired, 10)})
	}
	return rows
}

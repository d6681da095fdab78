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

// jobList is the flags of `carillon job list`.
type jobList struct {
	connection
	prefix string
	label  string
	phase  choice
	limit  int
}

// newJobList is `carillon job list`.
func newJobList(a app) *cobra.Command {
	l := jobList{phase: choice{words: phaseWords, chosen: -1}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List jobs in the order of their names",
		Args:    args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.run(cmd, a) },
	}
	cmd.Flags().StringVar(&l.prefix, "prefix", "", "names that begin with it")
	cmd.Flags().StringVar(&l.label, "label", "", "jobs with the label: `key` or key=value")
	cmd.Flags().Var(&l.phase, "phase", "jobs that stand there")
	complete(cmd, "phase", phaseWords)
	cmd.Flags().IntVar(&l.limit, "limit", 100, "at most so many; 0 is all")
	l.add(cmd)
	addOutput(cmd)
	return cmd
}

func (l *jobList) run(cmd *cobra.Command, a app) error {
	return l.call(cmd, func(ctx context.Context, node *client.Client) error {
		jobs, more, err := l.collect(ctx, node)
		if err != nil {
			return err
		}
		if wantsJSON(cmd) {
			return printMessage(a.out, &pb.ListJobsResponse{Jobs: wire.JobsToProto(jobs)})
		}
		if more {
			fmt.Fprintf(a.errs, "These are the first %d; --limit 0 shows all.\n", len(jobs))
		}
		return printTable(a.out, []string{"NAME", "SCHEDULE", "TARGET", "PHASE", "NEXT RUN", "FIRED"}, jobRows(jobs))
	})
}

// collect reads pages until there are enough jobs.
func (l *jobList) collect(ctx context.Context, node carillon.Jobs) (jobs []carillon.Job, more bool, err error) {
	q := carillon.JobQuery{Namespace: l.namespace, Prefix: l.prefix, Label: l.label}
	if l.phase.chosen >= 0 {
		phase := carillon.Phase(l.phase.chosen)
		q.Phase = &phase
	}
	for {
		q.PageSize = pageSize(l.limit, len(jobs))
		page, err := node.ListJobs(ctx, q)
		if err != nil {
			return nil, false, err
		}
		jobs = append(jobs, page.Jobs...)
		q.PageToken = page.NextPageToken
		if q.PageToken == "" || (l.limit > 0 && len(jobs) >= l.limit) {
			return jobs, q.PageToken != "", nil
		}
	}
}

// pageSize is how much to ask for next: no more than is still wanted.
func pageSize(limit, have int) int {
	if limit <= 0 {
		return carillon.MaxBatch
	}
	return min(limit-have, carillon.MaxBatch)
}

func jobRows(jobs []carillon.Job) [][]string {
	rows := make([][]string, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		s := j.Status
		if s == nil {
			s = &carillon.JobStatus{}
		}
		rows = append(rows, []string{j.Name, dash(j.Schedule), clip(targetText(j.Target), 40), s.Phase.String(), dash(moment(s.NextRun)),
			strconv.FormatUint(s.Counters.Fired, 10)})
	}
	return rows
}

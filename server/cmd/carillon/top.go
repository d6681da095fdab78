package main

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// top holds the flags of `carillon top`.
type top struct {
	connection
	within string
	every  time.Duration
}

// newTop returns the command `carillon top`.
func newTop(a app) *cobra.Command {
	t := top{}
	cmd := &cobra.Command{Use: "top", Short: "Show live what waits, what fails and who serves",
		Long: `Show live, on a terminal, the queues with what waits in them and how late it is, the jobs of which runs have failed within the last
15 minutes, and the nodes. q ends it, space stops it and lets it go on.`,
		Args: arguments(0, 0)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.run(cmd, a) }
	cmd.Flags().StringVarP(&t.within, "namespace", "n", "",
		"queues and jobs of this `namespace`; default: queues of all, and jobs of the namespace that CARILLON_NAMESPACE or the context says")
	t.completeNamespace(cmd)
	cmd.Flags().DurationVar(&t.every, "interval", 2*time.Second, "how often it is asked; at least 500ms")
	t.addPlainReach(cmd)
	t.addWait(cmd)
	check(cmd, func(*cobra.Command) error {
		if t.every < 500*time.Millisecond {
			return usagef("--interval: %v is less than 500ms", t.every)
		}
		return nil
	})
	return cmd
}

func (t *top) run(cmd *cobra.Command, a app) error {
	t.namespace = carillon.DefaultNamespace
	t.resolve(cmd)
	if t.within != "" {
		t.namespace = t.within
	}
	if !isTerminal(a.in) || !isTerminal(a.raw) {
		return usagef("top is for a terminal; without one use `carillon queue list --watch` or `carillon run list --watch`")
	}
	node, err := t.dial()
	if err != nil {
		return err
	}
	defer node.Close()
	m := topModel{look: func() tea.Msg { return t.look(cmd.Context(), node) }, every: t.every,
		server: t.server, namespace: t.namespace, colour: a.display().colour}
	_, err = tea.NewProgram(m, tea.WithContext(cmd.Context()), tea.WithInput(a.in), tea.WithOutput(a.raw)).Run()
	if errors.Is(err, tea.ErrInterrupted) || cmd.Context().Err() != nil {
		return nil
	}
	return err
}

// failingFor is how far back failures are looked for, and mostFailures how many are looked at.
const (
	failingFor   = 15 * time.Minute
	mostFailures = 500
)

// failing is a job of which runs have failed.
type failing struct {
	job        string
	failed     int // of runs, and those that wait for another attempt
	retrying   int
	dead       int
	last       time.Time
	lastReason string
}

// topData is what was found at one time. What could not be found has an error.
type topData struct {
	at       time.Time
	queues   []carillon.Queue
	failing  []failing
	nodes    []carillon.Node
	more     bool // there are more queues or failures
	problems []string
}

// look asks a node for all that is shown.
func (t *top) look(ctx context.Context, node *client.Client) topData {
	ctx, cancel := context.WithTimeout(ctx, t.wait)
	defer cancel()
	d := topData{at: time.Now()}
	page, err := node.ListQueues(ctx, carillon.QueueQuery{Namespace: t.within, PageSize: carillon.MaxBatch})
	d.problem("queues", t.explain(err))
	d.queues, d.more = page.Queues, page.NextPageToken != ""
	slices.SortStableFunc(d.queues, func(a, b carillon.Queue) int { return b.Waiting() - a.Waiting() })
	runs, err := node.ListRuns(ctx, carillon.RunQuery{Namespace: t.namespace, From: d.at.Add(-failingFor),
		Statuses: []carillon.RunStatus{carillon.RunRetrying, carillon.RunFailed, carillon.RunDead},
		PageSize: mostFailures})
	d.problem("runs", t.explain(err))
	d.failing, d.more = failingJobs(runs.Runs), d.more || runs.NextPageToken != ""
	status, err := node.ClusterStatus(ctx)
	d.problem("nodes", t.explain(err))
	d.nodes = status.Nodes
	return d
}

func (d *topData) problem(what string, err error) {
	if err != nil {
		d.problems = append(d.problems, what+": "+clip(err.Error(), 200))
	}
}

// failingJobs counts failures by job, those with the most first.
func failingJobs(runs []carillon.Run) (all []failing) {
	at := make(map[string]int)
	for i := range runs {
		r := &runs[i]
		n, ok := at[r.Job]
		if !ok {
			n = len(all)
			at[r.Job], all = n, append(all, failing{job: r.Job})
		}
		f := &all[n]
		switch r.Status {
		case carillon.RunRetrying:
			f.retrying++
		case carillon.RunDead:
			f.dead++
		default:
			f.failed++
		}
		if e := lastError(r); e.At.After(f.last) || f.lastReason == "" {
			f.last, f.lastReason = e.At, e.Message
		}
	}
	slices.SortStableFunc(all, func(a, b failing) int {
		return b.failed + b.dead + b.retrying - a.failed - a.dead - a.retrying
	})
	return all
}

// lastError is why a run failed last, or what is known of it.
func lastError(r *carillon.Run) carillon.AttemptError {
	if n := len(r.Errors); n > 0 {
		return r.Errors[n-1]
	}
	return carillon.AttemptError{At: r.Finished, Message: r.Reason}
}

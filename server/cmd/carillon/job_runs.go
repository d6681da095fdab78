package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
)

// newJobRuns returns the command `carillon job runs`.
func newJobRuns(a app) *cobra.Command {
	l := runList{status: choice{words: finishedWords, chosen: -1}}
	cmd := &cobra.Command{
		Use:   "runs NAME",
		Short: "Show the finished runs of a job, newest first",
		Args:  arguments(1, 1),
		RunE: l.ask(a, func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			return l.list(ctx, node, carillon.RunQuery{Namespace: l.namespace, Job: words[0]})
		}),
	}
	l.addFlags(cmd, "")
	return cmd
}

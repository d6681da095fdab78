package main

import (
	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchHerd returns the command `carillon bench herd`.
func newBenchHerd(a app) *cobra.Command {
	var h bench.Herd
	cmd := newBenchRun(a, "herd", "Many one-shots that are due at the same instant", &h)
	cmd.Flags().IntVar(&h.Jobs, "jobs", 20_000, "jobs")
	cmd.Flags().DurationVar(&h.Hold, "hold", 0, "how long a worker keeps a run before it answers")
	addWorkers(cmd, &h.Workers, &h.Credits)
	return cmd
}

// addWorkers adds the flags of benches that receive runs.
func addWorkers(cmd *cobra.Command, workers, credits *int) {
	cmd.Flags().IntVar(workers, "workers", 4, "worker sessions")
	cmd.Flags().IntVar(credits, "credits", 10_000, "runs in flight for each session")
}

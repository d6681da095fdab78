package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchHerd returns the command `carillon bench herd`.
func newBenchHerd(a app) *cobra.Command {
	var h bench.Herd
	return newBenchRun(a, "herd", "Many one-shots that are due at the same instant", func(flags *pflag.FlagSet) {
		flags.IntVar(&h.Jobs, "jobs", 20_000, "jobs")
		flags.DurationVar(&h.Hold, "hold", 0, "how long a worker keeps a run before it answers")
		addWorkers(flags, &h.Workers, &h.Credits)
	}, func(ctx context.Context, b *bench.Bench) (bench.Result, error) {
		return h.Run(ctx, b) // the flags have been parsed by now
	})
}

// addWorkers adds the flags of benches that receive runs.
func addWorkers(flags *pflag.FlagSet, workers, credits *int) {
	flags.IntVar(workers, "workers", 4, "worker sessions")
	flags.IntVar(credits, "credits", 10_000, "runs in flight for each session")
}

package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchSteady returns the command `carillon bench steady`.
func newBenchSteady(a app) *cobra.Command {
	var s bench.Steady
	cmd := newBenchRun(a, "steady", "How late runs are that are due at a steady rate", &s)
	cmd.Flags().Float64Var(&s.Rate, "rate", 10_000, "runs a second")
	cmd.Flags().DurationVar(&s.For, "for", 10*time.Second, "how long")
	addWorkers(cmd, &s.Workers, &s.Credits)
	return cmd
}

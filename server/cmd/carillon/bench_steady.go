package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchSteady returns the command `carillon bench steady`.
func newBenchSteady(a app) *cobra.Command {
	var s bench.Steady
	return newBenchRun(a, "steady", "How late runs are that are due at a steady rate", func(flags *pflag.FlagSet) {
		flags.Float64Var(&s.Rate, "rate", 10_000, "runs a second")
		flags.DurationVar(&s.For, "for", 10*time.Second, "how long")
		addWorkers(flags, &s.Workers, &s.Credits)
	}, func(ctx context.Context, b *bench.Bench) (bench.Result, error) {
		return s.Run(ctx, b) // the flags have been parsed by now
	})
}

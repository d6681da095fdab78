package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchLive returns the command `carillon bench live`.
func newBenchLive(a app) *cobra.Command {
	var l bench.Live
	return newBenchRun(a, "live", "The whole life of jobs that come at a steady rate and are due at once",
		func(flags *pflag.FlagSet) {
			flags.Float64Var(&l.Rate, "rate", 116, "jobs a second, however slow the node is")
			flags.DurationVar(&l.For, "for", time.Minute, "how long")
			addWorkers(flags, &l.Workers, &l.Credits)
		}, func(ctx context.Context, b *bench.Bench) (bench.Result, error) {
			return l.Run(ctx, b) // the flags have been parsed by now
		})
}

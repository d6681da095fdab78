package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchRecurring returns the command `carillon bench recurring`.
func newBenchRecurring(a app) *cobra.Command {
	var r bench.Recurring
	return newBenchRun(a, "recurring", "Many jobs that fire every so often", func(flags *pflag.FlagSet) {
		flags.IntVar(&r.Jobs, "jobs", 50_000, "jobs")
		flags.DurationVar(&r.Every, "every", time.Second, "how often each fires")
		flags.DurationVar(&r.For, "for", 20*time.Second, "how long to measure")
		flags.DurationVar(&r.WarmUp, "warm-up", 3*time.Second, "how long to wait before that")
		flags.BoolVar(&r.AtOnce, "at-once", false, "all fire at the same instants, instead of spread evenly")
		addWorkers(flags, &r.Workers, &r.Credits)
	}, func(ctx context.Context, b *bench.Bench) (bench.Result, error) {
		return r.Run(ctx, b) // the flags have been parsed by now
	})
}

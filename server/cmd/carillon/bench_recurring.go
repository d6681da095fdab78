package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchRecurring returns the command `carillon bench recurring`.
func newBenchRecurring(a app) *cobra.Command {
	var r bench.Recurring
	cmd := newBenchRun(a, "recurring", "Many jobs that fire every so often", &r)
	flags := cmd.Flags()
	flags.IntVar(&r.Jobs, "jobs", 50_000, "jobs")
	flags.DurationVar(&r.Every, "every", time.Second, "how often each fires")
	flags.DurationVar(&r.For, "for", 20*time.Second, "how long to measure")
	flags.DurationVar(&r.WarmUp, "warm-up", 3*time.Second, "how long to wait before that")
	flags.BoolVar(&r.AtOnce, "at-once", false, "all fire at the same instants, instead of spread evenly")
	addWorkers(cmd, &r.Workers, &r.Credits)
	return cmd
}

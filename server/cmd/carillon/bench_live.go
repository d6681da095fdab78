package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchLive returns the command `carillon bench live`.
func newBenchLive(a app) *cobra.Command {
	var l bench.Live
	cmd := newBenchRun(a, "live", "The whole life of jobs that come at a steady rate and are due at once", &l)
	cmd.Flags().Float64Var(&l.Rate, "rate", 116, "jobs a second, however slow the node is")
	cmd.Flags().DurationVar(&l.For, "for", time.Minute, "how long")
	addWorkers(cmd, &l.Workers, &l.Credits)
	return cmd
}

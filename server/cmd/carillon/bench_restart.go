package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchRestart returns the command `carillon bench restart`.
func newBenchRestart(a app) *cobra.Command {
	var f benchFlags
	var jobs int
	var idle time.Duration
	cmd := f.command(a, "restart", "Memory with many jobs, and the time from kill -9 to the first run",
		func(cmd *cobra.Command, shown *progress) (bench.Result, error) {
			return f.restart(cmd.Context(), a, shown,
				func(ctx context.Context, r bench.Restart, cfg bench.Config) (bench.Result, error) {
					r.Jobs, r.Idle = jobs, idle
					return r.Run(ctx, cfg)
				})
		})
	cmd.Long = `Load a node, started for the bench, with jobs that are due next year, kill it, start it again, and measure the time
until the first run is received, the memory and what an idle node costs.`
	flags := cmd.Flags()
	flags.IntVar(&jobs, "jobs", 100_000, "jobs")
	flags.DurationVar(&idle, "idle", 5*time.Second, "how long to watch what the idle node costs")
	f.addStore(flags)
	f.addCommon(flags)
	return cmd
}

// restart starts a node, measures with it and ends it.
func (f *benchFlags) restart(ctx context.Context, a app, shown *progress,
	run func(context.Context, bench.Restart, bench.Config) (bench.Result, error),
) (bench.Result, error) {
	server, stop, err := f.spawned(ctx, a)
	if err != nil {
		return bench.Result{}, err
	}
	result, err := run(ctx, bench.Restart{Server: server, Dial: dialBench}, f.config(bench.Node{}, shown))
	return result, errors.Join(err, stop())
}

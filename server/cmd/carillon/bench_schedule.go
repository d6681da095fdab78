package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// benchSchedule holds the flags of `carillon bench schedule`.
type benchSchedule struct {
	bench.Schedule
	mode choice
}

// newBenchSchedule returns the command `carillon bench schedule`.
func newBenchSchedule(a app) *cobra.Command {
	s := benchSchedule{mode: choice{words: []string{string(bench.Unary), string(bench.Batch),
		string(bench.Stream)}}}
	cmd := newBenchRun(a, "schedule", "How fast jobs are put, each durable before it is acknowledged", &s)
	flags := cmd.Flags()
	flags.IntVar(&s.Jobs, "jobs", 100_000, "jobs to put")
	s.mode.add(cmd, "mode", "one call a job, one call for many, or a client stream")
	flags.IntVar(&s.Callers, "callers", 0, "calls at once; default 128 for unary, 8 for batch, 4 for stream")
	flags.IntVar(&s.Batch, "batch", 256, "jobs to a call or message")
	flags.IntVar(&s.Payload, "payload", 64, "`bytes` of payload")
	flags.Float64Var(&s.Rate, "rate", 0, "jobs a second, however slow the node is; 0 is as fast as it goes")
	return cmd
}

// Run implements load.
func (s *benchSchedule) Run(ctx context.Context, b *bench.Bench) (bench.Result, error) {
	s.Mode = bench.Mode(s.mode.String())
	return s.Schedule.Run(ctx, b)
}

package main

import (
	"context"
	"time"

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

// newBenchHerd returns the command `carillon bench herd`.
func newBenchHerd(a app) *cobra.Command {
	var h bench.Herd
	cmd := newBenchRun(a, "herd", "Many one-shots that are due at the same instant", &h)
	cmd.Flags().IntVar(&h.Jobs, "jobs", 20_000, "jobs")
	cmd.Flags().DurationVar(&h.Hold, "hold", 0, "how long a worker keeps a run before it answers")
	addWorkers(cmd, &h.Workers, &h.Credits)
	return cmd
}

// newBenchLive returns the command `carillon bench live`.
func newBenchLive(a app) *cobra.Command {
	var l bench.Live
	cmd := newBenchRun(a, "live", "The whole life of jobs that come at a steady rate and are due at once", &l)
	cmd.Flags().Float64Var(&l.Rate, "rate", 116, "jobs a second, however slow the node is")
	cmd.Flags().DurationVar(&l.For, "for", time.Minute, "how long")
	addWorkers(cmd, &l.Workers, &l.Credits)
	return cmd
}

// newBenchSteady returns the command `carillon bench steady`.
func newBenchSteady(a app) *cobra.Command {
	var s bench.Steady
	cmd := newBenchRun(a, "steady", "How late runs are that are due at a steady rate", &s)
	cmd.Flags().Float64Var(&s.Rate, "rate", 10_000, "runs a second")
	cmd.Flags().DurationVar(&s.For, "for", 10*time.Second, "how long")
	addWorkers(cmd, &s.Workers, &s.Credits)
	return cmd
}

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

// newBenchHTTP returns the command `carillon bench http`.
func newBenchHTTP(a app) *cobra.Command {
	var h bench.HTTP
	cmd := newBenchRun(a, "http", "Callbacks to a trivial server inside this process", &h)
	cmd.Flags().IntVar(&h.Jobs, "jobs", 20_000, "callbacks, all due at the same instant")
	cmd.Flags().IntVar(&h.Hosts, "hosts", 1, "servers; each is a host with a limit of its own")
	cmd.Long = cmd.Short + `. A node that was not started by the bench must allow loopback targets
(carillon serve --allow-target 127.0.0.0/8).`
	return cmd
}

// addWorkers adds the flags of benches that receive runs.
func addWorkers(cmd *cobra.Command, workers, credits *int) {
	cmd.Flags().IntVar(workers, "workers", 4, "worker sessions")
	cmd.Flags().IntVar(credits, "credits", 10_000, "runs in flight for each session")
}

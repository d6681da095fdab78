package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// fleet starts as many nodes as the flags say.
func (f *benchFlags) fleet(ctx context.Context, a app) (*bench.Fleet, error) {
	if f.store == "" {
		return nil, usagef("--store: several nodes need one that they can share, such as postgres://… or redis://…")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return bench.SpawnFleet(ctx, bench.Program{Binary: self, Store: f.store, Partitions: f.partitions,
		Log: a.errs}, f.nodes, f.delay)
}

// newBenchTakeover returns the command `carillon bench takeover`.
func newBenchTakeover(a app) *cobra.Command {
	var t bench.Takeover
	cmd := newBenchFleet(a, "takeover", "The time from the end of a node until others fire in its place",
		func(ctx context.Context, b *bench.Bench, f *bench.Fleet) (bench.Result, error) {
			t.Fleet = f
			return t.Run(ctx, b)
		})
	cmd.Flags().Float64Var(&t.Rate, "rate", 500, "runs a second meanwhile")
	cmd.Flags().BoolVar(&t.Orderly, "orderly", false, "end the node by SIGTERM instead of SIGKILL")
	return cmd
}

// newBenchForward returns the command `carillon bench forward`.
func newBenchForward(a app) *cobra.Command {
	var w bench.Forward
	cmd := newBenchFleet(a, "forward", "The cost of putting jobs through a node that does not own their partition",
		func(ctx context.Context, b *bench.Bench, f *bench.Fleet) (bench.Result, error) {
			w.Fleet = f
			return w.Run(ctx, b, dialBench)
		})
	cmd.Flags().IntVar(&w.Jobs, "jobs", 10_000, "jobs")
	cmd.Flags().IntVar(&w.Callers, "callers", 16, "calls at once")
	cmd.Flags().BoolVar(&w.Other, "other", false, "put each job through another node than its partition's owner")
	return cmd
}

// newBenchFleet returns the command of a bench that starts several nodes.
func newBenchFleet(a app, use, short string,
	run func(context.Context, *bench.Bench, *bench.Fleet) (bench.Result, error)) *cobra.Command {
	var f benchFlags
	cmd := f.command(a, use, short, func(cmd *cobra.Command, shown *progress) (bench.Result, error) {
		if f.nodes < 2 {
			f.nodes = 3
		}
		fleet, err := f.fleet(cmd.Context(), a)
		if err != nil {
			return bench.Result{}, err
		}
		result, err := f.measure(cmd.Context(), fleet.Node(dialBench), shown,
			func(ctx context.Context, b *bench.Bench) (bench.Result, error) { return run(ctx, b, fleet) })
		return result, errors.Join(err, fleet.Close())
	})
	f.addStore(cmd.Flags())
	f.addCommon(cmd.Flags())
	return cmd
}

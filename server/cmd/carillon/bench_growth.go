package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// benchGrowth holds the flags of `carillon bench growth`.
type benchGrowth struct {
	benchFlags
	growth bench.Growth
	axes   []string
}

// newBenchGrowth returns the command `carillon bench growth`.
func newBenchGrowth(a app) *cobra.Command {
	var g benchGrowth
	cmd := &cobra.Command{
		Use:   "growth",
		Short: "What putting and firing cost as jobs, partitions and payloads grow",
		Long: `Measure the same puts and the same steady runs with more and more jobs in the store, with more and more partitions, and
with larger and larger payloads: one table each, every line with a node started for it on an empty store.`,
		Example: `carillon bench growth
carillon bench growth --axis jobs --existing 10000,10000000`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return g.run(cmd, a) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&g.axes, "axis", []string{"jobs", "partitions", "payloads"}, "what is to grow")
	flags.IntSliceVar(&g.growth.Existing, "existing", []int{10_000, 100_000, 1_000_000},
		"jobs in the store, due next year")
	flags.IntSliceVar(&g.growth.Partitions, "partitions", []int{1, 16, 64, 256}, "partitions of the store")
	flags.IntSliceVar(&g.growth.Payloads, "payloads", []int{100, 1 << 10, 64 << 10},
		"`bytes` of payload of what is put and fired")
	flags.IntVar(&g.growth.Puts, "puts", 50_000,
		"jobs put for each line, one call a job, 128 callers; fewer if the payload is large")
	flags.Float64Var(&g.growth.Rate, "rate", 2000, "runs a second; fewer if the payload is large")
	flags.DurationVar(&g.growth.For, "for", 5*time.Second, "how long runs are fired")
	g.addCommon(flags)
	return cmd
}

func (g *benchGrowth) run(cmd *cobra.Command, a app) error {
	if err := g.choose(); err != nil {
		return err
	}
	shown := newProgress(a.errs)
	g.growth.Start = func(ctx context.Context, partitions int) (bench.Node, func() error, error) {
		g.benchFlags.partitions = partitions
		return g.spawnedNode(ctx, a)
	}
	tables, err := g.growth.Run(cmd.Context(), g.config(bench.Node{}, shown))
	shown.clear()
	return errors.Join(g.printTables(a, tables), err, unclean(tables))
}

// choose removes the axes that the flags do not ask for.
func (g *benchGrowth) choose() error {
	axes := map[string]*[]int{"jobs": &g.growth.Existing, "partitions": &g.growth.Partitions,
		"payloads": &g.growth.Payloads}
	for _, name := range g.axes {
		if axes[name] == nil {
			return usagef("--axis: %q is none of jobs, partitions and payloads", name)
		}
	}
	for name, values := range axes {
		if !slices.Contains(g.axes, name) {
			*values = nil
		}
	}
	return nil
}

// unclean returns an error that names the lines whose ledger is not clean.
func unclean(tables []bench.GrowthTable) (err error) {
	for _, t := range tables {
		for _, p := range t.Points {
			for _, r := range []bench.Result{p.Put, p.Fire} {
				if !r.OK() {
					err = errors.Join(err,
						fmt.Errorf("%s %d: %s: the ledger is not clean: %s", t.Axis, p.Value, r.Bench, r.Ledger))
				}
			}
		}
	}
	return err
}

func (g *benchGrowth) printTables(a app, tables []bench.GrowthTable) error {
	if g.json {
		return printJSON(a.out, tables)
	}
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		heading := []string{t.Axis, "PUTS", "CPU EACH", "P99", "RUNS", "CPU EACH", "P99 LATENESS", "MEMORY"}
		if err := a.print(table(heading, t.Points, growthRow)); err != nil {
			return err
		}
	}
	return nil
}

func growthRow(p *bench.GrowthPoint) []string {
	return []string{
		strconv.Itoa(p.Value),
		fmt.Sprintf("%.0f/s", p.Put.Rate), fmt.Sprintf("%.1f µs", p.Put.CPU),
		fmt.Sprintf("%.1f ms", p.Put.Latency.P99),
		fmt.Sprintf("%.0f/s", p.Fire.Rate), fmt.Sprintf("%.1f µs", p.Fire.CPU),
		fmt.Sprintf("%.1f ms", p.Fire.Lateness.P99),
		fmt.Sprintf("%d MiB", p.Fire.RSS>>20),
	}
}

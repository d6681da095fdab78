package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// benchGoals holds the flags of `carillon bench goals`.
type benchGoals struct {
	benchFlags
	size choice
	only []string

	shared map[string]bench.Result // results that serve several goals
}

// outcome is one line of the table.
type outcome struct {
	ID       string        `json:"id"`
	Measure  string        `json:"measure"`
	Goal     string        `json:"goal"`
	Measured string        `json:"measured"`
	Met      bool          `json:"met"` // only meaningful at the full size
	Result   *bench.Result `json:"result,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// newBenchGoals returns the command `carillon bench goals`.
func newBenchGoals(a app) *cobra.Command {
	g := benchGoals{shared: map[string]bench.Result{},
		size: choice{words: slices.Sorted(maps.Keys(bench.Sizes))}}
	_ = g.size.Set("small") // a valid size
	cmd := &cobra.Command{
		Use:   "goals",
		Short: "All benches, held against the goals of docs/performance.md",
		Long: `Run every bench and hold what it measures against the goals of docs/performance.md. A figure counts for a goal only at
--size full and on the machine that the goals name. A goal that is missed is no failure; a ledger that is not clean is.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return g.run(cmd, a) },
	}
	g.size.add(cmd, "size", "how large: full is as the goals say, small a twentieth, smoke a five-hundredth")
	cmd.Flags().StringSliceVar(&g.only, "only", nil, "goals to measure, for example P1,P5; default all")
	g.add(cmd.Flags())
	ownNode(cmd)
	return cmd
}

func (g *benchGoals) run(cmd *cobra.Command, a app) error {
	goals, err := g.chosen()
	if err != nil {
		return err
	}
	shown := newProgress(a.errs)
	var lines []outcome
	var failed error
	for _, goal := range goals {
		line, err := g.measureOne(cmd, a, goal, shown)
		shown.clear()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", goal.ID, err))
		}
		if !g.json && isTerminal(a.errs) {
			a.sayf("%s %s: %s", goal.ID, goal.Measure, line.Measured)
		}
		lines = append(lines, line)
		if cmd.Context().Err() != nil {
			break
		}
	}
	return errors.Join(g.printGoals(a, lines), failed)
}

// chosen returns the goals that the flags ask for.
func (g *benchGoals) chosen() ([]bench.Goal, error) {
	var goals []bench.Goal
	unknown := slices.Clone(g.only)
	for _, goal := range bench.Goals() {
		if goal.Spawned != nil && !g.spawn && !slices.Contains(g.only, goal.ID) {
			continue // it needs a process that it may kill
		}
		if len(g.only) == 0 || slices.Contains(g.only, goal.ID) {
			goals = append(goals, goal)
			unknown = slices.DeleteFunc(unknown, func(id string) bool { return id == goal.ID })
		}
	}
	if len(unknown) > 0 {
		return nil, usagef("--only: there is no goal %q", unknown[0])
	}
	return goals, nil
}

// measureOne measures one goal, with a node of its own if the bench starts nodes. It returns a line even
// after an error.
func (g *benchGoals) measureOne(cmd *cobra.Command, a app, goal bench.Goal,
	shown *progress) (outcome, error) {
	line := outcome{ID: goal.ID, Measure: goal.Measure, Goal: goal.Goal}
	result, err := g.sharedResult(cmd, a, goal, shown)
	if err == nil && !result.OK() {
		err = fmt.Errorf("the ledger is not clean: %s", result.Ledger)
	}
	if err != nil {
		line.Measured, line.Error = "failed", err.Error()
		return line, err
	}
	line.Measured, line.Met, line.Result = goal.Measured(&result), goal.Met(&result), &result
	return line, nil
}

// sharedResult returns a result that was measured for another goal, or measures a new one.
func (g *benchGoals) sharedResult(cmd *cobra.Command, a app, goal bench.Goal,
	shown *progress) (bench.Result, error) {
	if r, ok := g.shared[goal.Shared]; ok {
		return r, nil
	}
	r, err := g.result(cmd, a, goal, shown)
	if err == nil && goal.Shared != "" {
		g.shared[goal.Shared] = r
	}
	return r, err
}

func (g *benchGoals) result(cmd *cobra.Command, a app, goal bench.Goal,
	shown *progress) (bench.Result, error) {
	if all := g.profiles; all != "" { // two goals may have the same bench
		g.profiles = filepath.Join(all, cmp.Or(goal.Shared, goal.ID))
		defer func() { g.profiles = all }()
	}
	size := bench.Sizes[g.size.String()]
	if goal.Spawned != nil {
		return g.restart(cmd.Context(), a, shown,
			func(ctx context.Context, r bench.Restart, cfg bench.Config) (bench.Result, error) {
				return goal.Spawned(ctx, r, cfg, size)
			})
	}
	node, stop, err := g.node(cmd, a)
	if err != nil {
		return bench.Result{}, err
	}
	result, err := g.measure(cmd.Context(), node, shown,
		func(ctx context.Context, b *bench.Bench) (bench.Result, error) {
			return goal.Run(ctx, b, size)
		})
	return result, errors.Join(err, stop())
}

func (g *benchGoals) printGoals(a app, lines []outcome) error {
	if g.json {
		return printJSON(a.out, lines)
	}
	return a.print(table([]string{"GOAL", "MEASURE", "WANTED", "MEASURED", "MET", "LEDGER"}, lines, g.row))
}

func (g *benchGoals) row(l *outcome) []string {
	met := "no"
	switch {
	case g.size.String() != "full":
		met = "-" // the goals are for the full size
	case l.Met:
		met = "yes"
	}
	ledger := "-"
	if l.Result != nil && l.Result.Ledger != nil {
		ledger = l.Result.Ledger.String()
	}
	return []string{l.ID, l.Measure, l.Goal, l.Measured, met, ledger}
}

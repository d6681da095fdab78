package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Size is how large the benches of the goals are.
type Size struct {
	Name   string
	factor float64 // of the numbers of jobs
	span   time.Duration
}

// Sizes are the sizes by name.
var Sizes = map[string]Size{
	"smoke": {"smoke", 0.002, time.Second},
	"small": {"small", 0.05, 5 * time.Second},
	"full":  {"full", 1, 20 * time.Second},
}

// jobs is n in this size.
func (s Size) jobs(n int) int { return max(100, int(float64(n)*s.factor)) }

// Goal is one line of the table of goals in docs/performance.md.
type Goal struct {
	ID      string
	Measure string
	Goal    string
	// Run measures in a size.
	Run func(ctx context.Context, b *Bench, s Size) (Result, error)
	// Spawned measures with a process of its own; nil for the others.
	Spawned func(ctx context.Context, r Restart, cfg Config, s Size) (Result, error)
	// Shared names a measurement that several goals are held against: it is made once.
	Shared string
	// Measured is what to hold against the goal; Met reports whether it is reached.
	Measured func(r *Result) string
	Met      func(r *Result) bool
}

// Goals are P1 to P9 and P12 over the native API.
func Goals() []Goal {
	all := slices.Concat(putGoals(), fireGoals(), processGoals())
	slices.SortStableFunc(all, func(a, b Goal) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), strings.Compare(a.ID, b.ID)) // P9 before P12
	})
	return all
}

func putGoals() []Goal {
	return []Goal{
		{
			ID: "P1", Measure: "PutJob, 128 callers", Goal: "≥ 30,000/s, ≤ 35 µs server CPU, p99 ≤ 10 ms",
			Run: func(ctx context.Context, b *Bench, s Size) (Result, error) {
				return Schedule{Jobs: s.jobs(200_000), Mode: Unary}.Run(ctx, b)
			},
			Measured: func(r *Result) string {
				return fmt.Sprintf("%s, %.0f µs, p99 %.1f ms", perSecond(r.Rate), r.CPU, r.Latency.P99)
			},
			Met: func(r *Result) bool { return r.Rate >= 30_000 && r.CPU <= 35 && r.Latency.P99 <= 10 },
		},
		{
			ID: "P2", Measure: "bulk put, batches of 256", Goal: "≥ 100,000/s durable",
			Run: func(ctx context.Context, b *Bench, s Size) (Result, error) {
				return Schedule{Jobs: s.jobs(1_000_000), Mode: Batch}.Run(ctx, b)
			},
			Measured: func(r *Result) string { return perSecond(r.Rate) },
			Met:      func(r *Result) bool { return r.Rate >= 100_000 },
		},
	}
}

func fireGoals() []Goal {
	return []Goal{
		{
			ID: "P3", Measure: "20,000 one-shots at one instant", Goal: "all within 250 ms, ≤ 20 µs server CPU each",
			Run: func(ctx context.Context, b *Bench, s Size) (Result, error) {
				return Herd{Jobs: s.jobs(20_000)}.Run(ctx, b)
			},
			Measured: func(r *Result) string {
				return fmt.Sprintf("last after %.0f ms, %.0f µs", r.Lateness.Max, r.CPU)
			},
			Met: func(r *Result) bool { return r.Lateness.Max <= 250 && r.CPU <= 20 },
		},
		{
			ID: "P4", Measure: "1,000,000 one-shots at one instant, durably finished", Goal: "≥ 100,000/s",
			Run: func(ctx context.Context, b *Bench, s Size) (Result, error) {
				return Herd{Jobs: s.jobs(1_000_000)}.Run(ctx, b)
			},
			Measured: func(r *Result) string { return perSecond(r.Rate) },
			Met:      func(r *Result) bool { return r.Rate >= 100_000 },
		},
		{
			ID: "P5", Measure: "50,000 jobs every second, durably advanced", Goal: "50,000/s, p99 lateness ≤ 20 ms",
			Run: func(ctx context.Context, b *Bench, s Size) (Result, error) {
				return Recurring{Jobs: s.jobs(50_000), For: s.span}.Run(ctx, b)
			},
			Measured: func(r *Result) string {
				return fmt.Sprintf("%s, p99 %.1f ms", perSecond(r.Rate), r.Lateness.P99)
			},
			Met: func(r *Result) bool { return r.Rate >= 49_500 && r.Lateness.P99 <= 20 },
		},
		{
			ID: "P6", Measure: "lateness at a steady 10,000 runs/s", Goal: "p50 ≤ 1 ms, p99 ≤ 5 ms",
			Run: func(ctx context.Context, b *Bench, s Size) (Result, error) {
				return Steady{Rate: float64(s.jobs(10_000)), For: s.span}.Run(ctx, b)
			},
			Measured: func(r *Result) string {
				return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", r.Lateness.P50, r.Lateness.P99)
			},
			Met: func(r *Result) bool { return r.Lateness.P50 <= 1 && r.Lateness.P99 <= 5 },
		},
		{
			ID: "P9", Measure: "HTTP callbacks to a trivial server", Goal: "≥ 15,000/s",
			Run: func(ctx context.Context, b *Bench, s Size) (Result, error) {
				return HTTP{Jobs: s.jobs(100_000)}.Run(ctx, b)
			},
			Measured: func(r *Result) string { return perSecond(r.Rate) },
			Met:      func(r *Result) bool { return r.Rate >= 15_000 },
		},
	}
}

func processGoals() []Goal {
	restart := func(jobs int) func(context.Context, Restart, Config, Size) (Result, error) {
		return func(ctx context.Context, r Restart, cfg Config, s Size) (Result, error) {
			r.Jobs, r.Idle = s.jobs(jobs), s.span
			return r.Run(ctx, cfg)
		}
	}
	memory := func(r *Result) string {
		return fmt.Sprintf("%d MiB (the program's file %d)", r.RSS>>20, r.Files>>20)
	}
	const many, huge = 100_000, 10_000_000
	return []Goal{
		{
			ID: "P7", Measure: "resident memory, 100,000 jobs", Goal: "≤ 60 MiB", Spawned: restart(many),
			Measured: memory,
			Met:      func(r *Result) bool { return 0 < r.RSS && r.RSS <= 60<<20 },
		},
		{
			ID: "P7", Measure: "resident memory, 10,000,000 jobs", Goal: "≤ 256 MiB",
			Spawned: restart(huge), Shared: "huge", Measured: memory,
			Met: func(r *Result) bool { return 0 < r.RSS && r.RSS <= 256<<20 },
		},
		{
			ID: "P8", Measure: "kill -9, start, first run, 10,000,000 jobs", Goal: "≤ 1 s",
			Spawned: restart(huge), Shared: "huge",
			Measured: func(r *Result) string { return fmt.Sprintf("%.0f ms", r.Seconds*1000) },
			Met:      func(r *Result) bool { return r.Seconds <= 1 },
		},
		{
			ID: "P12", Measure: "idle node, 10,000,000 far-future jobs", Goal: "≤ 1 % of a core",
			Spawned: restart(huge), Shared: "huge",
			Measured: func(r *Result) string { return fmt.Sprintf("%.2f %% of a core", 100**r.Idle) },
			Met:      func(r *Result) bool { return *r.Idle <= .01 },
		},
	}
}

// perSecond is a rate for people.
func perSecond(rate float64) string { return fmt.Sprintf("%.0f/s", rate) }

package bench

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// Access measures what TLS, authentication and records of calls add to a put. All nodes run at once, and are
// put under load in turn, so that a machine that becomes slower does so for all of them.
type Access struct {
	Ways    []Way // at least one; the others are held against the first
	Jobs    int   // put in each way in each round; default 20,000
	Callers int   // calls at once; default 16
	Rounds  int   // after one that does not count; default 5
}

// Way is one way to reach a node.
type Way struct {
	Name string
	Node Node
}

// AccessPoint is what was measured of a way: the median of its rounds.
type AccessPoint struct {
	Way    string  `json:"way"`
	Rate   float64 `json:"rate"`                     // puts a second
	CPU    float64 `json:"server_cpu_us_per_put"`    //
	Client float64 `json:"client_cpu_us_per_put"`    // of the load generator
	More   float64 `json:"server_cpu_us_more"`       // than the first way in the same round
	Least  float64 `json:"server_cpu_us_more_least"` // of all rounds
	Most   float64 `json:"server_cpu_us_more_most"`  // of all rounds
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
}

// Run measures.
func (a Access) Run(ctx context.Context, cfg Config) ([]AccessPoint, error) {
	a.Jobs, a.Callers, a.Rounds = cmp.Or(a.Jobs, 20_000), cmp.Or(a.Callers, 16), cmp.Or(a.Rounds, 5)
	var benches []*Bench
	defer func() {
		for _, b := range benches {
			b.Close()
		}
	}()
	for _, w := range a.Ways {
		one := cfg
		one.Node = w.Node
		if cfg.Profiles != "" { // those of the last round stay
			one.Profiles = filepath.Join(cfg.Profiles, w.Name)
		}
		b, err := Open(one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
		benches = append(benches, b)
	}
	results := make([][]Result, len(a.Ways))
	for round := range a.Rounds + 1 {
		for i, b := range benches {
			r, err := Schedule{Jobs: a.Jobs, Callers: a.Callers}.Run(ctx, b)
			if err == nil && !r.OK() {
				err = fmt.Errorf("the ledger is not clean: %s", r.Ledger)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.Ways[i].Name, err)
			}
			if round > 0 {
				results[i] = append(results[i], r)
			}
		}
	}
	return a.points(results), nil
}

// points has a line for each way, from its results by round.
func (a Access) points(results [][]Result) []AccessPoint {
	points := make([]AccessPoint, 0, len(a.Ways))
	for i, w := range a.Ways {
		of := func(value func(r *Result, round int) float64) []float64 {
			values := make([]float64, 0, len(results[i]))
			for round := range results[i] {
				values = append(values, value(&results[i][round], round))
			}
			slices.Sort(values)
			return values
		}
		more := of(func(r *Result, round int) float64 { return r.CPU - results[0][round].CPU })
		points = append(points, AccessPoint{Way: w.Name,
			Rate:   middle(of(func(r *Result, _ int) float64 { return r.Rate })),
			CPU:    middle(of(func(r *Result, _ int) float64 { return r.CPU })),
			Client: middle(of(func(r *Result, _ int) float64 { return r.Client })),
			More:   middle(more), Least: more[0], Most: more[len(more)-1],
			P50: middle(of(func(r *Result, _ int) float64 { return r.Latency.P50 })),
			P99: middle(of(func(r *Result, _ int) float64 { return r.Latency.P99 })),
		})
	}
	return points
}

// middle is the median of values in order.
func middle(values []float64) float64 {
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

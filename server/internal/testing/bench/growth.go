package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/carillonhq/carillon"
)

// Growth measures how the cost of putting and firing jobs changes as one thing grows while the others stay: a
// table for each. Every point has a node of its own.
type Growth struct {
	Existing   []int // far-future jobs that are in the store already
	Partitions []int
	Payloads   []int         // bytes
	Puts       int           // jobs put at each point, one call a job; default 50,000
	Rate       float64       // runs a second; default 2,000
	For        time.Duration // how long runs are fired; default 5 s
	// Start starts a node on a new store of so many partitions, 0 being the default.
	Start func(ctx context.Context, partitions int) (node Node, stop func() error, err error)
}

// GrowthTable is what was measured along one axis.
type GrowthTable struct {
	Axis   string        `json:"axis"`
	Points []GrowthPoint `json:"points"`
}

// GrowthPoint is what was measured at one value of the axis.
type GrowthPoint struct {
	Value int    `json:"value"`
	Put   Result `json:"put"`
	Fire  Result `json:"fire"`
}

// most bytes of payload that are put at a point, and fired in a second: what is measured is Carillon, not the
// disk.
const (
	mostPutBytes  = 256 << 20
	mostFireBytes = 16 << 20
)

// point is one measurement.
type point struct{ existing, partitions, payload int }

// Run measures. Whatever was measured before an error is in the tables.
func (g Growth) Run(ctx context.Context, cfg Config) ([]GrowthTable, error) {
	g = g.withDefaults()
	var tables []GrowthTable
	for _, axis := range []struct {
		name   string
		values []int
		point  func(v int) point
	}{
		{"jobs stored", g.Existing, func(v int) point { return point{existing: v, payload: defaultPayload} }},
		{"partitions", g.Partitions, func(v int) point { return point{partitions: v, payload: defaultPayload} }},
		{"payload bytes", g.Payloads, func(v int) point { return point{payload: v} }},
	} {
		if len(axis.values) == 0 {
			continue
		}
		tables = append(tables, GrowthTable{Axis: axis.name})
		table := &tables[len(tables)-1]
		for _, v := range axis.values {
			one := cfg
			if cfg.Profiles != "" {
				one.Profiles = filepath.Join(cfg.Profiles, fmt.Sprintf("%s %d", axis.name, v))
			}
			p, err := g.measure(ctx, one, axis.point(v))
			if err != nil {
				return tables, fmt.Errorf("%s %d: %w", axis.name, v, err)
			}
			p.Value = v
			table.Points = append(table.Points, p)
		}
	}
	return tables, nil
}

func (g Growth) withDefaults() Growth {
	if g.Puts <= 0 {
		g.Puts = 50_000
	}
	if g.Rate <= 0 {
		g.Rate = 2000
	}
	if g.For <= 0 {
		g.For = 5 * time.Second
	}
	return g
}

// measure starts a node for a point and measures there.
func (g Growth) measure(ctx context.Context, cfg Config, at point) (p GrowthPoint, err error) {
	node, stop, err := g.Start(ctx, at.partitions)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	cfg.Node = node
	b, err := Open(cfg)
	if err != nil {
		return p, err
	}
	defer b.Close()
	if err := b.preloadFar(ctx, newPrefix(), at.existing); err != nil {
		return p, err
	}
	if err := b.settle(ctx); err != nil {
		return p, err
	}
	puts := min(g.Puts, mostPutBytes/max(1, at.payload))
	if p.Put, err = (Schedule{Jobs: puts, Payload: at.payload}).Run(ctx, b); err != nil {
		return p, err
	}
	rate := min(g.Rate, mostFireBytes/float64(max(1, at.payload)))
	p.Fire, err = Steady{Rate: rate, For: g.For, Payload: at.payload}.Run(ctx, b)
	return p, err
}

// preloadFar puts jobs that are due next year. It keeps no ledger, so that their number is bounded by the
// node alone.
func (b *Bench) preloadFar(ctx context.Context, prefix string, jobs int) error {
	due := time.Now().AddDate(1, 0, 0)
	return b.preload(ctx, jobs, 0, func(i int) carillon.Job {
		return carillon.Job{Namespace: b.cfg.Namespace, Name: fmt.Sprintf("%sfar/%d", prefix, i),
			Target: carillon.WorkerQueue(prefix),
			Due:    carillon.At(due.Add(time.Duration(i) * time.Millisecond)), Data: carillon.JSON(i)}
	}, func(int) {})
}

// settle waits until the node's process has tidied up after loading: a second in which it does next to
// nothing, or a minute at most.
func (b *Bench) settle(ctx context.Context) error {
	const second, most = time.Second, time.Minute
	if b.cfg.Node.PID == 0 {
		return nil
	}
	defer b.watch("waiting until the node has tidied up", 0, func() int64 { return 0 })()
	for range most / second {
		m := startMeter(b.cfg.Node.PID)
		if err := pause(ctx, second); err != nil {
			return err
		}
		if m.cpu() <= second/20 {
			return nil
		}
	}
	return nil
}

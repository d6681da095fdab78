package engines

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/testing/bench"
	"github.com/carillonhq/carillon/server/internal/testing/chaos"
)

var (
	chosen = flag.String("engines", "", "engines to measure, by commas; `all`: each of them")
	binary = flag.String("binary", "", "program to measure; default this build's, which takes a while to be made")
	factor = flag.Float64("size", 1, "numbers of jobs, as a factor")
)

// load is what is measured: of one engine, with one number of nodes.
type load struct {
	puts, batched, herd int // jobs
	steady              float64
	lasting             time.Duration
}

// TestEngines prints a table of what nodes do on each engine. It judges only that no job is lost.
func TestEngines(t *testing.T) {
	if *chosen == "" {
		t.Skip("it measures only; -engines=all has it run")
	}
	names := strings.Split(*chosen, ",")
	if *chosen == "all" {
		names = order
	}
	program := build(t)
	for _, name := range names {
		e := engines[name]
		if e.start == nil {
			t.Fatalf("-engines: %q is none of %s", name, strings.Join(order, ", "))
		}
		t.Run(name, func(t *testing.T) {
			for _, nodes := range []int{1, 3} {
				if nodes == 1 || !e.alone {
					t.Run(fmt.Sprint(nodes), func(t *testing.T) { e.measure(t, program, name, nodes) })
				}
			}
		})
	}
}

// TestOneEngine is so small that it measures nothing: the table can be made.
func TestOneEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("processes are not for -short")
	}
	e := engines["redis"]
	e.load = load{500, 1000, 500, 100, time.Second}
	e.measure(t, build(t), "redis", 1)
}

// build builds the program, unless one is given.
func build(t *testing.T) string {
	t.Helper()
	if *binary != "" {
		return *binary
	}
	path, err := chaos.Build(t.Context(), t.TempDir())
	must(t, err)
	return path
}

const (
	callers = 128 // of single puts
	bulk    = 8   // of batches
	batch   = 256
)

// measure measures an engine with so many nodes, and logs a row of the table.
func (e engine) measure(t *testing.T, program, name string, nodes int) {
	t.Helper()
	s := e.start(t)
	n := func(jobs int) int { return max(batch, int(float64(jobs)**factor)) }
	var row strings.Builder
	fmt.Fprintf(&row, "| %s, %d |", name, nodes)
	if s.bare == nil {
		row.WriteString(" – | – |")
	} else {
		for _, b := range []commits{{n(e.load.puts), 1, callers}, {n(e.load.batched) / batch, batch, bulk}} {
			began := time.Now()
			must(t, s.bare(t, b))
			fmt.Fprintf(&row, " %.0f/s |", float64(b.commits*b.records)/time.Since(began).Seconds())
		}
	}
	fleet := spawn(t, program, s.stores(t, nodes), e.flags)
	under := fleet.Node(func(address string) (bench.Conn, error) { return client.Dial(address) })
	under.Throwaway = true
	for _, one := range []func(context.Context, *bench.Bench) (bench.Result, error){
		bench.Schedule{Jobs: n(e.load.puts), Mode: bench.Unary, Callers: callers}.Run,
		bench.Schedule{Jobs: n(e.load.batched), Mode: bench.Batch, Callers: bulk, Batch: batch}.Run,
		bench.Herd{Jobs: n(e.load.herd), Lead: 5 * time.Second}.Run,
		bench.Steady{Rate: e.load.steady, For: e.load.lasting}.Run,
	} {
		row.WriteString(cell(t, under, one))
	}
	memory, err := fleet.Resident()
	must(t, err)
	fmt.Fprintf(&row, " %d MiB |", memory/int64(nodes)>>20)
	t.Log("engine, nodes; bare client, single and in batches; puts; batches; herd; steady; memory of a node:\n" +
		row.String())
}

// cell runs one bench, and says what it found.
func cell(t *testing.T, under bench.Node, run func(context.Context, *bench.Bench) (bench.Result, error)) string {
	t.Helper()
	b, err := bench.Open(bench.Config{Node: under})
	must(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r, err := run(ctx, b)
	must(t, err)
	if !r.OK() {
		t.Errorf("%s: %v", r.Bench, r.Ledger)
	}
	text := fmt.Sprintf(" %.0f/s, %.0f µs", r.Rate, r.CPU)
	if q := r.Latency; q != nil {
		text += fmt.Sprintf(", p99 %.0f ms", q.P99)
	}
	if q := r.Lateness; q != nil {
		text += fmt.Sprintf(", late %.1f / %.0f / %.0f ms", q.P50, q.P99, q.Max)
	}
	return text + " |"
}

// spawn starts a node for each store.
func spawn(t *testing.T, program string, stores []string, flags []string) *bench.Fleet {
	t.Helper()
	programs := make([]bench.Program, len(stores))
	for i, store := range stores {
		programs[i] = bench.Program{Binary: program, Store: store, Name: nodeName(i), Args: flags, Log: os.Stderr}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f, err := bench.SpawnTogether(ctx, programs)
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func nodeName(i int) string { return fmt.Sprint("bench-", i) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBench returns the command `carillon bench`.
func newBench(a app) *cobra.Command {
	cmd := newGroup("bench", "Measure a node under load",
		newBenchSchedule(a), newBenchHerd(a), newBenchLive(a), newBenchSteady(a), newBenchRecurring(a),
		newBenchHTTP(a), newBenchRestart(a),
		newBenchGrowth(a), newBenchGoals(a), newBenchTakeover(a), newBenchForward(a),
		newBenchAccess(a))
	cmd.Long = `Measure a node under load. Every bench keeps a ledger of its own of what should have run and what did; it fails if a
run is missing, early or doubled, whatever the speed.

With --spawn the node is a child process on a store of its own, which gives its CPU time too. Without it the bench uses the
node at --server, whose CPU time it gives if --server-pid is known.`
	return cmd
}

// benchFlags holds the flags of every bench.
type benchFlags struct {
	reach
	namespace   string
	pid         int
	spawn       bool
	inProcess   bool
	store       string
	connections int
	partitions  int
	nodes       int
	delay       time.Duration // on the way to the store, each way
	profiles    string
	watchers    int
	debug       string // where the node at --server serves profiles
	json        bool
}

func (f *benchFlags) add(flags *pflag.FlagSet) {
	f.asked = true // load is only for a node that the user has named for it
	f.reach.add(flags, "gRPC `address` of the node; environment CARILLON_SERVER")
	flags.Lookup("context").Usage = "`name` of a context that says where the node is and how it is reached, in place of --server; " +
		"neither the current one nor CARILLON_CONTEXT is used"
	flags.IntVar(&f.pid, "server-pid", 0, "process `id` of the node, for its CPU time and memory")
	flags.BoolVar(&f.spawn, "spawn", false, "start a node for the bench, in a process of its own")
	flags.BoolVar(&f.inProcess, "in-process", false,
		"start a node for the bench inside this process, without gRPC between")
	flags.StringVar(&f.debug, "server-debug", "",
		"`address` at which the node serves profiles, its --debug-listen")
	f.addStore(flags)
	f.addCommon(flags)
}

// ownNode refuses flags that contradict a node which is started for the bench.
func ownNode(cmd *cobra.Command) {
	exclusive(cmd, "spawn", "in-process")
	exclusive(cmd, "spawn", "context")
	exclusive(cmd, "in-process", "context")
	for _, name := range slices.Sorted(maps.Keys((&reach{}).tlsFlags())) {
		exclusive(cmd, "spawn", name)
		exclusive(cmd, "in-process", name)
	}
}

// addStore adds the flags for the store of a node that the bench starts.
func (f *benchFlags) addStore(flags *pflag.FlagSet) {
	flags.StringVar(&f.store, "store", "",
		"store of the node that is started, as for serve; default an empty folder, removed afterwards")
	flags.IntVar(&f.nodes, "nodes", 1, "nodes that are started, on one store that several can share")
	flags.DurationVar(&f.delay, "store-delay", 0,
		"how much longer what nodes and the server of their store say to each other takes, each way")
	flags.IntVar(&f.partitions, "partitions", 0,
		"partitions of the node that is started, if its store is new; default as for serve")
}

// addCommon adds the flags of every bench.
func (f *benchFlags) addCommon(flags *pflag.FlagSet) {
	flags.StringVarP(&f.namespace, "namespace", "n", carillon.DefaultNamespace, "`namespace` of the jobs")
	flags.IntVar(&f.connections, "connections", 4, "connections to the node")
	flags.StringVar(&f.profiles, "profile", "",
		"`folder` to write the node's profiles of what is measured to, for go tool pprof")
	flags.IntVar(&f.watchers, "watchers", 0, "watchers of all events, in the process of the bench")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
}

// load is a bench whose parameters are flags: they are set when it runs.
type load interface {
	Run(ctx context.Context, b *bench.Bench) (bench.Result, error)
}

// newBenchRun returns the command of one bench.
func newBenchRun(a app, use, short string, l load) *cobra.Command {
	var f benchFlags
	cmd := f.command(a, use, short, func(cmd *cobra.Command, shown *progress) (bench.Result, error) {
		node, stop, err := f.node(cmd, a)
		if err != nil {
			return bench.Result{}, err
		}
		result, err := f.measure(cmd.Context(), node, shown, l.Run)
		return result, errors.Join(err, stop())
	})
	f.add(cmd.Flags())
	ownNode(cmd)
	return cmd
}

// command returns a command that shows the progress of a bench and prints its result. A ledger that is not
// clean is an error.
func (f *benchFlags) command(a app, use, short string,
	run func(*cobra.Command, *progress) (bench.Result, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: arguments(0, 0)}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		shown := newProgress(a.errs)
		r, err := run(cmd, shown)
		shown.clear()
		if err != nil {
			return err
		}
		if f.json {
			err = printJSON(a.out, r)
		} else {
			err = a.print(resultText(&r))
		}
		if err == nil && !r.OK() {
			return fmt.Errorf("%s: the ledger is not clean: %s", r.Bench, r.Ledger)
		}
		return err
	}
	return cmd
}

func (f *benchFlags) measure(ctx context.Context, node bench.Node, shown *progress,
	run func(context.Context, *bench.Bench) (bench.Result, error)) (bench.Result, error) {
	b, err := bench.Open(f.config(node, shown))
	if err != nil {
		return bench.Result{}, err
	}
	defer b.Close()
	return run(ctx, b)
}

func (f *benchFlags) config(node bench.Node, shown *progress) bench.Config {
	return bench.Config{Node: node, Namespace: f.namespace, Connections: f.connections, Profiles: f.profiles,
		Watchers: f.watchers, Progress: shown.show}
}

// node returns the node to put under load, as the flags say; stop ends it if it was started for the bench.
func (f *benchFlags) node(cmd *cobra.Command, a app) (node bench.Node, stop func() error, err error) {
	switch {
	case f.spawn && (f.nodes > 1 || f.delay > 0):
		fleet, err := f.fleet(cmd.Context(), a)
		if err != nil {
			return node, nil, err
		}
		return fleet.Node(dialBench), fleet.Close, nil
	case f.spawn:
		return f.spawnedNode(cmd.Context(), a)
	case f.inProcess:
		return f.embedded(cmd.Context())
	default:
		f.resolve(cmd.Flags())
		connect := func() (bench.Conn, error) { return f.dial() }
		return bench.Node{PID: f.pid, Debug: f.debug, Connect: connect}, func() error { return nil }, nil
	}
}

// dialBench connects to a node that was started for the bench.
func dialBench(address string) (bench.Conn, error) { return (&reach{server: address}).dial() }

// spawnedNode starts a node in a process of its own, to be put under load.
func (f *benchFlags) spawnedNode(ctx context.Context, a app) (node bench.Node, stop func() error, err error) {
	server, stop, err := f.spawned(ctx, a)
	if err == nil {
		node = server.Node(dialBench)
		node.Throwaway = f.store == ""
	}
	return node, stop, err
}

// spawned starts a node in a process of its own.
func (f *benchFlags) spawned(ctx context.Context, a app) (*bench.Server, func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	store, remove, err := f.storeURL()
	if err != nil {
		return nil, nil, err
	}
	server, err := bench.Spawn(ctx, bench.Program{Binary: self, Store: store,
		Partitions: f.partitions, Log: a.errs})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	end := server.Stop
	if f.store == "" {
		end = server.Kill // its data is not needed
	}
	return server, func() error { return errors.Join(end(), remove()) }, nil
}

// storeURL returns the store of a node that the bench starts; remove removes it if it is a temporary one.
func (f *benchFlags) storeURL() (url string, remove func() error, err error) {
	if f.store != "" {
		return f.store, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "carillon-bench-")
	return "pebble:" + dir, func() error { return os.RemoveAll(dir) }, err
}

func resultText(r *bench.Result) string {
	idle := ""
	if r.Idle != nil {
		idle = fmt.Sprintf("%.2f %% of a core", 100**r.Idle)
	}
	return description([]field{
		{"bench", r.Bench},
		{"parameters", r.Parameters},
		{"operations", fmt.Sprintf("%d in %.3f s", r.Operations, r.Seconds)},
		{"rate", unlessZero("%.0f/s", r.Rate)},
		{"first run to last", unlessZero("%.3f s", r.Span)},
		{"latency of calls", quantilesText(r.Latency)},
		{"lateness of runs", quantilesText(r.Lateness)},
		{"server CPU", unlessZero("%.1f µs per operation", r.CPU)},
		{"load generator CPU", unlessZero("%.1f µs per operation", r.Client)},
		{"idle", idle},
		{"server memory", residentText(r)},
		{"stalls", unlessZero("%v", r.Stalls)},
		{"takeover", unlessZero("%v", r.Phases)},
		{"ledger", unlessZero("%v", r.Ledger)},
		{"notes", strings.Join(r.Notes, "; ")},
	})
}

func residentText(r *bench.Result) string {
	if r.RSS == 0 {
		return ""
	}
	return fmt.Sprintf("%d MiB resident, of which %d MiB are the program's file", r.RSS>>20, r.Files>>20)
}

func quantilesText(q *bench.Quantiles) string {
	if q == nil {
		return ""
	}
	return fmt.Sprintf("p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms", q.P50, q.P90,
		q.P99, q.P999, q.Max)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/clienttls"
	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// benchAccess holds the flags of `carillon bench access`.
type benchAccess struct {
	benchFlags
	bench.Access

	dir     string // of keys, certificates and stores, removed in the end
	keyFile string
	id      *bench.Identity
	ends    []func() error // of the nodes that were started
}

// newBenchAccess returns the command `carillon bench access`.
func newBenchAccess(a app) *cobra.Command {
	var b benchAccess
	cmd := &cobra.Command{
		Use:   "access",
		Short: "What TLS, authentication and audit add to a put",
		Long: `Start a node for each way to reach one, on an empty embedded store, and put the same jobs to each in turn: without TLS
and authentication, with API keys, with records of the calls, with TLS, and with certificates of both sides. A figure is the
median of the rounds. MORE is what a put costs the node's CPU beyond the first way, in the same round, with the least and the
most of all rounds in parentheses: a difference smaller than those is none.`,
		Example: `carillon bench access
carillon bench access --jobs 50000 --rounds 9`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd, a) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&b.Jobs, "jobs", 20_000, "jobs put in each way in each round")
	flags.IntVar(&b.Callers, "callers", 16, "calls at once")
	flags.IntVar(&b.Rounds, "rounds", 5, "rounds that count; one goes before them")
	b.addCommon(flags)
	return cmd
}

func (b *benchAccess) run(cmd *cobra.Command, a app) (err error) {
	for flag, value := range map[string]int{"jobs": b.Jobs, "callers": b.Callers, "rounds": b.Rounds} {
		if value < 1 {
			return usagef("--%s: %d; it must be at least 1", flag, value)
		}
	}
	if b.dir, err = os.MkdirTemp("", "carillon-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := b.furnish(); err != nil {
		return err
	}
	defer func() {
		for _, end := range b.ends {
			err = errors.Join(err, end())
		}
	}()
	shown := newProgress(a.errs)
	for _, w := range b.ways() {
		node, err := b.start(cmd.Context(), a, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		b.Ways = append(b.Ways, bench.Way{Name: w.name, Node: node})
	}
	points, err := b.Run(cmd.Context(), b.config(bench.Node{}, shown))
	shown.clear()
	if err != nil {
		return err
	}
	if b.json {
		return printJSON(a.out, points)
	}
	heading := []string{"WAY", "PUTS", "P50", "P99", "CLIENT CPU", "NODE CPU", "MORE"}
	return a.print(table(heading, points, accessRow))
}

// furnish makes what the nodes and their clients know each other by.
func (b *benchAccess) furnish() (err error) {
	if b.id, err = bench.NewIdentity(b.dir); err != nil {
		return err
	}
	_, key, _ := access.Mint()
	b.keyFile = filepath.Join(b.dir, "api.key")
	return os.WriteFile(b.keyFile, []byte(key+"\n"), 0o600)
}

// accessWay is how a node is started and reached.
type accessWay struct {
	name   string
	audit  string // empty: without keys
	tls    bool
	mutual bool // the client shows a certificate
}

// ways are what is measured: the first is what the others are held against.
func (b *benchAccess) ways() []accessWay {
	return []accessWay{
		{name: "open"},
		{name: "keys, no audit", audit: "off"},
		{name: "keys, audit in the log", audit: "log"},
		{name: "keys, audit in the store", audit: "store"},
		{name: "TLS", tls: true},
		{name: "TLS, keys, no audit", tls: true, audit: "off"},
		{name: "mutual TLS", tls: true, mutual: true},
	}
}

// start starts a node.
func (b *benchAccess) start(ctx context.Context, a app, w accessWay) (node bench.Node, err error) {
	self, err := os.Executable()
	if err != nil {
		return node, err
	}
	store, err := os.MkdirTemp(b.dir, "store-")
	if err != nil {
		return node, err
	}
	to, p := reach{}, bench.Program{Binary: self, Store: "pebble:" + store, Log: a.errs}
	if w.audit != "" {
		// Lines of the audit go to a file: what a terminal costs is not the node's.
		log, err := os.CreateTemp(b.dir, "log-")
		if err != nil {
			return node, err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		p.Log = log
	}
	if w.audit != "" {
		p.Args = append(p.Args, "--auth", "keys", "--bootstrap-key-file", b.keyFile, "--audit", w.audit)
		to.key.file = b.keyFile
	}
	if w.tls {
		p.Args = append(p.Args, "--tls-cert", b.id.Cert, "--tls-key", b.id.Key)
		p.Trust, to.tls = b.id.Trust, clienttls.Options{CA: b.id.Cert}
	}
	if w.mutual {
		p.Args = append(p.Args, "--tls-client-ca", b.id.Cert)
		to.tls.Cert, to.tls.Key = b.id.Cert, b.id.Key
	}
	server, err := bench.Spawn(ctx, p)
	if err != nil {
		return node, err
	}
	b.ends = append(b.ends, server.Kill)
	node = server.Node(func(address string) (bench.Conn, error) {
		one := to
		one.server = address
		return one.dial()
	})
	node.Throwaway = true
	return node, nil
}

func accessRow(p *bench.AccessPoint) []string {
	return []string{
		p.Way, fmt.Sprintf("%.0f/s", p.Rate), fmt.Sprintf("%.2f ms", p.P50), fmt.Sprintf("%.2f ms", p.P99),
		fmt.Sprintf("%.1f µs", p.Client), fmt.Sprintf("%.1f µs", p.CPU),
		fmt.Sprintf("%+.1f µs (%+.1f … %+.1f)", p.More, p.Least, p.Most),
	}
}

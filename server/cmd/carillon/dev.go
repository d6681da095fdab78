package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/telemetry"
)

// dev holds the flags of `carillon dev`.
type dev struct {
	dir  string
	grpc string
	http string

	payloads string
	brokers  string
}

// newDev returns the command `carillon dev`.
func newDev(a app) *cobra.Command {
	var d dev
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a node with sample jobs, to see it work",
		Long: `Run a node on a store in a folder, with a sample worker for the queue "dev" and a few sample jobs, and print runs as they
fire. HTTP targets on this machine are allowed. Ctrl-C lets what is running finish and leaves; a second start goes on where
the first stopped.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context(), a) },
	}
	cmd.Flags().StringVar(&d.dir, "dir", "./carillon-data", "`folder` of the store")
	cmd.Flags().StringVar(&d.grpc, "grpc", server.DefaultGRPC, "`address` to take gRPC at")
	cmd.Flags().StringVar(&d.http, "http", server.DefaultHTTP, "`address` to take HTTP at")
	cmd.Flags().StringVar(&d.payloads, "payload-store", "",
		"`url` of a place for payloads above 64 KiB, such as file:DIR; default none")
	addBrokers(cmd.Flags(), &d.brokers)
	return cmd
}

func (d *dev) run(ctx context.Context, a app) error {
	log := telemetry.NewLogger(a.errs, false, slog.LevelWarn)
	telemetry.TakeStandardLog(log)
	var payloads *server.Payloads
	if d.payloads != "" {
		payloads = &server.Payloads{Store: d.payloads}
	}
	c := server.Config{
		Store: "pebble:" + d.dir, Payloads: payloads,
		GRPC: d.grpc, HTTP: d.http, Log: log,
		Targets: server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("::1/128")}, Brokers: server.Brokers{File: d.brokers}},
		Monitoring: server.Monitoring{Version: thisBuild().Version}}
	useBrokers(&c)
	defer reloadFiles(&c)()
	node, stop, err := startNode(context.WithoutCancel(ctx), c)
	if err != nil {
		return err
	}
	lines := &runLines{w: a.out}
	sinkURL, closeSink, err := startSink(lines)
	if err != nil {
		return errors.Join(err, stop())
	}
	defer closeSink()
	d.greet(a.out, node)
	lines.heading()
	if err := putSamples(context.WithoutCancel(ctx), node.Scheduler(), sinkURL); err != nil {
		return errors.Join(err, stop())
	}
	err = newSampleWorker(node.Scheduler(), lines, log).Run(ctx)
	fmt.Fprintln(a.out, "Leaving. The jobs are kept in "+d.dir+".")
	return errors.Join(err, stop())
}

// greet prints what is running and what to try.
func (d *dev) greet(w io.Writer, node *server.Server) {
	fmt.Fprintf(w, `Carillon is up.
  page   http://%[1]s/
  REST   http://%[1]s/v1/namespaces/%s/jobs
  gRPC   %s
  store  %s

Try in another terminal:
  curl -X PUT http://%[1]s/v1/namespaces/default/jobs/hello -d '{"due_time":"2s","target":{"worker":{"queue":"dev"}}}'
  %[6]s job list%[5]s

Ctrl-C ends it.

`, node.HTTPAddr(), carillon.DefaultNamespace, node.GRPCAddr(), d.dir,
		serverFlag(node.GRPCAddr()), thisCommand())
}

// thisCommand returns how the running program was called, so that suggested commands work in the same shell.
func thisCommand() string {
	program, err := os.Executable()
	if err != nil {
		return "carillon"
	}
	return commandOf(program, os.Args[0])
}

// commandOf returns the command that runs a program: as it was called, unless go run built it for this one
// time.
func commandOf(program, called string) string {
	if strings.Contains(filepath.ToSlash(program), "/go-build") {
		return "go run ./server/cmd/carillon"
	}
	return called
}

// serverFlag returns the flag that a command needs to reach a node at addr.
func serverFlag(addr string) string {
	if addr == defaultServer {
		return ""
	}
	return " --server " + addr
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// newBenchHTTP returns the command `carillon bench http`.
func newBenchHTTP(a app) *cobra.Command {
	var h bench.HTTP
	cmd := newBenchRun(a, "http", "Callbacks to a trivial server inside this process", &h)
	cmd.Flags().IntVar(&h.Jobs, "jobs", 20_000, "callbacks, all due at the same instant")
	cmd.Flags().IntVar(&h.Hosts, "hosts", 1, "servers; each is a host with a limit of its own")
	cmd.Long = cmd.Short + `. A node that was not started by the bench must allow loopback targets
(carillon serve --allow-target 127.0.0.0/8).`
	return cmd
}

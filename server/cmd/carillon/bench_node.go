package main

import (
	"context"
	"errors"
	"net/netip"
	"os"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/bench"
)

// local is a connection to a node in this process: the scheduler itself.
type local struct{ carillon.Scheduler }

// Close has nothing to do.
func (local) Close() error { return nil }

// embedded starts a node inside this process.
func (f *benchFlags) embedded(ctx context.Context) (bench.Node, func() error, error) {
	store, remove, err := f.storeURL()
	if err != nil {
		return bench.Node{}, nil, err
	}
	node, stop, err := startNode(context.WithoutCancel(ctx), server.Config{Store: store,
		Partitions: f.partitions, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0",
		Monitoring: server.Monitoring{Debug: "127.0.0.1:0"},
		Targets:    server.Targets{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		return bench.Node{}, nil, errors.Join(err, remove())
	}
	connect := func() (bench.Conn, error) { return local{node.Scheduler()}, nil }
	return bench.Node{PID: os.Getpid(), HTTP: node.HTTPAddr(), Debug: node.DebugAddr(), Connect: connect,
			Throwaway: f.store == ""},
		func() error { return errors.Join(stop(), remove()) }, nil
}

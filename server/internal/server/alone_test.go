package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/server"
)

// TestANodeAlone: it has a cluster of its own, of one, over the wire.
func TestANodeAlone(t *testing.T) {
	for _, store := range []string{"memory:", "pebble:" + t.TempDir()} {
		s, stop := serveUntil(t, server.Config{Store: store, Partitions: 3, Name: "one"})
		c, err := client.Dial(s.GRPCAddr())
		if err != nil {
			t.Fatal(err)
		}
		wantAlone(t, c, s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		watched := make(chan []carillon.Node, 1)
		go func() {
			ended <- c.WatchNodes(ctx, func(nodes []carillon.Node) error { watched <- nodes; return nil })
		}()
		if nodes := await(t, watched); len(nodes) != 1 || nodes[0].ID != "one" || nodes[0].Owns != 3 {
			t.Errorf("%s: watched %+v", store, nodes)
		}
		stop() // a watch does not keep the node from leaving
		if err := await(t, ended); carillon.KindOf(err) != carillon.Unavailable {
			t.Errorf("%s: the watch ended with %v", store, err)
		}
		cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func wantAlone(t *testing.T, c *client.Client, s *server.Server) {
	t.Helper()
	status, err := c.ClusterStatus(t.Context())
	if err != nil || len(status.Nodes) != 1 || len(status.Partitions) != 3 {
		t.Fatalf("got %+v, %v", status, err)
	}
	self := status.Nodes[0]
	if !self.SkewKnown || self.Skew.Abs() > time.Minute {
		t.Errorf("skew %v, known %v", self.Skew, self.SkewKnown)
	}
	self.Skew, self.SkewKnown = 0, false
	if want := (carillon.Node{ID: "one", Address: s.GRPCAddr(), HTTP: s.HTTPAddr(), Owns: 3,
		State: carillon.NodeFit}); self != want {
		t.Errorf("got %+v, want %+v", self, want)
	}
	for i, p := range status.Partitions {
		if p.Partition != i || p.Node != "one" || p.Epoch == 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	if err := c.DrainNode(t.Context(), "one"); carillon.KindOf(err) != carillon.FailedPrecondition {
		t.Errorf("drain: %v", err)
	}
	if err := c.DrainNode(t.Context(), strings.Repeat("two",
		1000)); carillon.KindOf(err) != carillon.NotFound || len(err.Error()) > 300 {
		t.Errorf("drain of another: %v", err)
	}
	if err := errors.Join(c.Rebalance(t.Context()), s.Ready()); err != nil {
		t.Error(err)
	}
}

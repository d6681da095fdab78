package grpcapi

import (
	"context"
	"errors"
	"slices"
	"testing"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// nodes is a Cluster whose nodes come from a channel, and which remembers who was drained.
type nodes struct {
	carillon.Cluster
	changes chan []carillon.Node
	drained []string
	err     error
}

func (n *nodes) ClusterStatus(context.Context) (carillon.ClusterStatus, error) {
	return carillon.ClusterStatus{Nodes: []carillon.Node{{ID: "a", Owns: 1}},
		Partitions: []carillon.PartitionOwner{{Node: "a", Epoch: 3}}}, n.err
}

func (n *nodes) DrainNode(_ context.Context, id string) error {
	n.drained = append(n.drained, id)
	return n.err
}

func (n *nodes) Rebalance(context.Context) error { return n.err }

func (n *nodes) WatchNodes(ctx context.Context, f func([]carillon.Node) error) error {
	for {
		select {
		case now, more := <-n.changes:
			if !more {
				return n.err
			}
			if err := f(now); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestClusterCalls(t *testing.T) {
	n := &nodes{}
	conn := serve(t, &stub{}, Options{Cluster: NewClusterService(n)})
	c := pb.NewClusterServiceClient(conn)
	m, err := c.GetCluster(t.Context(), &pb.GetClusterRequest{})
	if err != nil || m.GetNodes()[0].GetId() != "a" || m.GetPartitions()[0].GetEpoch() != 3 {
		t.Errorf("got %v, %v", m, err)
	}
	if _, err := c.DrainNode(t.Context(), &pb.DrainNodeRequest{Id: "a"}); err != nil ||
		!slices.Equal(n.drained, []string{"a"}) {
		t.Errorf("drained %v, %v", n.drained, err)
	}
	_, err = c.DrainNode(t.Context(), &pb.DrainNodeRequest{})
	if e := problemOf(t, err); e.Field != "id" || len(n.drained) != 1 {
		t.Errorf("without an id: %v", e)
	}
	if _, err := c.Rebalance(t.Context(), &pb.RebalanceRequest{}); err != nil {
		t.Error(err)
	}
	n.err = carillon.Errorf(carillon.FailedPrecondition, "id", "the last one")
	for name, call := range map[string]func() error{
		"status":    func() error { _, err := c.GetCluster(t.Context(), &pb.GetClusterRequest{}); return err },
		"drain":     func() error { _, err := c.DrainNode(t.Context(), &pb.DrainNodeRequest{Id: "a"}); return err },
		"rebalance": func() error { _, err := c.Rebalance(t.Context(), &pb.RebalanceRequest{}); return err },
	} {
		if e := problemOf(t, call()); e.Kind != carillon.FailedPrecondition || e.Message != "the last one" {
			t.Errorf("%s: %v", name, e)
		}
	}
	h, err := healthpb.NewHealthClient(conn).Check(t.Context(),
		&healthpb.HealthCheckRequest{Service: "carillon.v1.ClusterService"})
	if err != nil || h.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
}

// TestWatchingNodes: each change is seen, what ends the watch is said, and a node that leaves ends it.
func TestWatchingNodes(t *testing.T) {
	n := &nodes{changes: make(chan []carillon.Node)}
	service := NewClusterService(n)
	c := pb.NewClusterServiceClient(serve(t, &stub{}, Options{Cluster: service}))
	watch := func() pb.ClusterService_WatchNodesClient {
		w, err := c.WatchNodes(t.Context(), &pb.WatchNodesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		n.changes <- []carillon.Node{{ID: "a"}}
		if m, err := w.Recv(); err != nil || len(m.GetNodes()) != 1 {
			t.Fatalf("first: %v, %v", m, err)
		}
		return w
	}
	w := watch()
	n.changes <- []carillon.Node{{ID: "a"}, {ID: "b", Draining: true}}
	if m, err := w.Recv(); err != nil || len(m.GetNodes()) != 2 || !m.GetNodes()[1].GetDraining() {
		t.Errorf("second: %v, %v", m, err)
	}
	service.Stop()
	service.Stop()
	_, err := w.Recv()
	if e := problemOf(t, err); e.Kind != carillon.Unavailable {
		t.Errorf("the node left: %v", e)
	}
}

// TestAWatchThatFails: the caller learns why.
func TestAWatchThatFails(t *testing.T) {
	n := &nodes{changes: make(chan []carillon.Node),
		err: carillon.Errorf(carillon.Unavailable, "", "the store is gone")}
	close(n.changes)
	c := pb.NewClusterServiceClient(serve(t, &stub{}, Options{Cluster: NewClusterService(n)}))
	w, err := c.WatchNodes(t.Context(), &pb.WatchNodesRequest{})
	if err == nil {
		_, err = w.Recv()
	}
	if e := problemOf(t, err); e.Message != "the store is gone" || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

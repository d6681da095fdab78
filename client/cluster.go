package client

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

var _ carillon.Cluster = (*Client)(nil)

// ClusterStatus returns the living nodes and the owners of partitions, as the asked node sees them; see
// [carillon.Cluster].
func (c *Client) ClusterStatus(ctx context.Context) (carillon.ClusterStatus, error) {
	m, err := c.cluster.GetCluster(ctx, &pb.GetClusterRequest{})
	if err != nil {
		return carillon.ClusterStatus{}, older(err)
	}
	return wire.ClusterFromProto(m)
}

// DrainNode makes a node hand over its partitions; see [carillon.Cluster]. It returns once the node was told.
// Repeating it is harmless.
func (c *Client) DrainNode(ctx context.Context, id string) error {
	_, err := c.cluster.DrainNode(ctx, &pb.DrainNodeRequest{Id: id})
	return older(err)
}

// Rebalance ends all drains; see [carillon.Cluster]. Repeating it is harmless.
func (c *Client) Rebalance(ctx context.Context) error {
	_, err := c.cluster.Rebalance(ctx, &pb.RebalanceRequest{})
	return older(err)
}

// WatchNodes calls f with the living nodes, at once and after each change; see [carillon.Cluster]. It also
// ends when the asked node leaves or cannot be reached: ask another one, or the same again.
func (c *Client) WatchNodes(ctx context.Context, f func([]carillon.Node) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.cluster.WatchNodes(ctx, &pb.WatchNodesRequest{})
	if err != nil {
		return failed(err, false)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return older(failed(err, false)) // a watch changes nothing
		}
		nodes, err := wire.NodesFromProto(m.GetNodes())
		if err != nil {
			return err
		}
		if err := f(nodes); err != nil {
			return err
		}
	}
}

// ListQueues returns a page of queues over all living nodes; see [carillon.Cluster].
func (c *Client) ListQueues(ctx context.Context, q carillon.QueueQuery) (carillon.QueuePage, error) {
	m, err := c.cluster.ListQueues(ctx, wire.QueueQueryToProto(&q))
	return carillon.QueuePage{Queues: wire.QueuesFromProto(m.GetQueues()), NextPageToken: m.GetNextPageToken(),
		Unheard: m.GetUnheard()}, unlisted(err)
}

// ListWorkers returns a page of connections to all living nodes; see [carillon.Cluster].
func (c *Client) ListWorkers(ctx context.Context, q carillon.WorkerQuery) (carillon.WorkerPage, error) {
	m, err := c.cluster.ListWorkers(ctx, wire.WorkerQueryToProto(&q))
	return carillon.WorkerPage{Workers: wire.WorkersFromProto(m.GetWorkers()),
		NextPageToken: m.GetNextPageToken(), Unheard: m.GetUnheard()}, unlisted(err)
}

// ListIngests returns a page of topics that the nodes take commands from; see [carillon.Ingests].
func (c *Client) ListIngests(ctx context.Context, q carillon.IngestQuery) (carillon.IngestPage, error) {
	m, err := c.cluster.ListIngests(ctx, wire.IngestQueryToProto(&q))
	if status.Code(err) == codes.Unimplemented {
		err = carillon.Errorf(carillon.FailedPrecondition, "",
			"this server is of a version that does not list ingests (%w)", err)
	}
	return carillon.IngestPage{Ingests: wire.IngestsFromProto(m.GetIngests()),
		NextPageToken: m.GetNextPageToken(), Unheard: m.GetUnheard()}, err
}

// PauseQueue stops the handing out of attempts of a queue; see [carillon.Queues].
func (c *Client) PauseQueue(ctx context.Context, key carillon.QueueKey,
	note string) (carillon.QueueChange, error) {
	m, err := c.cluster.PauseQueue(ctx, &pb.PauseQueueRequest{Namespace: key.Namespace, Kind: key.Kind,
		Name: key.Name, Note: note})
	return carillon.QueueChange{Pause: wire.QueuePauseFromProto(m.GetPause()), Unheard: m.GetUnheard()},
		unsteered(err)
}

// ResumeQueue ends a pause; see [carillon.Queues].
func (c *Client) ResumeQueue(ctx context.Context, key carillon.QueueKey) (carillon.QueueChange, error) {
	m, err := c.cluster.ResumeQueue(ctx, &pb.ResumeQueueRequest{Namespace: key.Namespace, Kind: key.Kind,
		Name: key.Name})
	return carillon.QueueChange{Ended: wire.QueuePauseFromProto(m.GetEnded()), Unheard: m.GetUnheard()},
		unsteered(err)
}

// PurgeQueue cancels the due runs that wait in a queue; see [carillon.Queues].
func (c *Client) PurgeQueue(ctx context.Context, key carillon.QueueKey,
	o carillon.PurgeOptions) (carillon.PurgeResult, error) {
	m, err := c.cluster.PurgeQueue(ctx, &pb.PurgeQueueRequest{Namespace: key.Namespace, Kind: key.Kind,
		Name: key.Name, DryRun: o.DryRun})
	return carillon.PurgeResult{Runs: int(m.GetPurged()), More: m.GetMore()}, unsteered(err)
}

// unlisted explains the error of a server that does not know these lists.
func unlisted(err error) error {
	if status.Code(err) != codes.Unimplemented {
		return err
	}
	return carillon.Errorf(carillon.FailedPrecondition, "",
		"this server is of a version that does not list queues and workers (%w)", err)
}

// unsteered explains the error of a server that does not know these calls.
func unsteered(err error) error {
	if status.Code(err) != codes.Unimplemented {
		return err
	}
	return carillon.Errorf(carillon.FailedPrecondition, "",
		"this server is of a version that does not pause and purge queues (%w)", err)
}

// older explains the error of a server that does not know these calls.
func older(err error) error {
	if status.Code(err) != codes.Unimplemented {
		return err
	}
	return carillon.Errorf(carillon.FailedPrecondition, "",
		"this server is of a version that knows nothing of clusters: it is alone (%w)", err)
}

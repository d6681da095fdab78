package server

import (
	"context"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/internal/queues"
	"github.com/carillonhq/carillon/server/store"
)

// soloCluster is the cluster of a node whose store no other node can open: it owns everything and can hand
// over nothing.
type soloCluster struct {
	self       carillon.Node // its name and addresses
	leases     store.Leases
	partitions int
	now        func() time.Time // the node's clock
	queues.List
	engine  *engine.Engine
	trouble func() error // why the store cannot write; nil if it can
}

// ClusterStatus implements [carillon.Cluster].
func (a soloCluster) ClusterStatus(ctx context.Context) (carillon.ClusterStatus, error) {
	owners, err := a.leases.Owners(ctx)
	if err != nil {
		return carillon.ClusterStatus{}, err
	}
	status := carillon.ClusterStatus{Partitions: make([]carillon.PartitionOwner, a.partitions)}
	for i := range status.Partitions {
		status.Partitions[i].Partition = i
	}
	self := a.self
	if err := a.trouble(); err != nil {
		self.Reason = err.Error()
	}
	for _, o := range owners {
		status.Partitions[o.Partition] = carillon.PartitionOwner{Partition: o.Partition, Epoch: o.Term.Epoch,
			Node: o.Node, Until: o.Until}
		if o.Node == self.ID {
			self.Owns++
		}
	}
	before := a.now()
	now, err := a.leases.Now(ctx)
	if err != nil {
		return carillon.ClusterStatus{}, err
	}
	self.Skew, self.SkewKnown = before.Sub(now).Round(time.Microsecond), true
	status.Nodes = []carillon.Node{self}
	return status, nil
}

// DrainNode implements [carillon.Cluster].
func (a soloCluster) DrainNode(_ context.Context, id string) error {
	if id != a.self.ID {
		return carillon.Errorf(carillon.NotFound, "id",
			"there is no node %.64q; this one is %q, and alone on its store", id, a.self.ID)
	}
	return carillon.Errorf(carillon.FailedPrecondition, "id",
		"node %q is alone on its store: there is none that could have its partitions", id)
}

// Rebalance implements [carillon.Cluster]: there is nothing to do.
func (a soloCluster) Rebalance(context.Context) error { return nil }

// WatchNodes implements [carillon.Cluster].
func (a soloCluster) WatchNodes(ctx context.Context, f func([]carillon.Node) error) error {
	self := a.self
	self.Owns = a.partitions
	if err := f([]carillon.Node{self}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// PauseQueue implements [carillon.Queues].
func (a soloCluster) PauseQueue(ctx context.Context, key carillon.QueueKey,
	note string) (carillon.QueueChange, error) {
	pause, err := a.engine.PauseQueue(ctx, key, note)
	if err != nil {
		return carillon.QueueChange{}, err
	}
	return carillon.QueueChange{Pause: pause}, a.engine.ReloadQueues(ctx)
}

// ResumeQueue implements [carillon.Queues].
func (a soloCluster) ResumeQueue(ctx context.Context, key carillon.QueueKey) (carillon.QueueChange, error) {
	ended, err := a.engine.ResumeQueue(ctx, key)
	if err != nil {
		return carillon.QueueChange{}, err
	}
	return carillon.QueueChange{Ended: ended}, a.engine.ReloadQueues(ctx)
}

// PurgeQueue implements [carillon.Queues].
func (a soloCluster) PurgeQueue(ctx context.Context, key carillon.QueueKey,
	o carillon.PurgeOptions) (carillon.PurgeResult, error) {
	return a.engine.PurgeQueue(ctx, key, o)
}

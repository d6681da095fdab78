package carillon

import (
	"context"
	"time"
)

// Cluster shows the nodes that share a store with their queues, workers and ingests, and moves partitions
// between them. A node that is alone has one, too.
type Cluster interface {
	Queues
	Ingests
	// ClusterStatus returns the living nodes and the owners of partitions, as the store has them at this
	// moment.
	ClusterStatus(ctx context.Context) (ClusterStatus, error)
	// DrainNode makes a living node hand its partitions over to others. It owns none until it starts again or
	// Rebalance is called, but goes on to take calls and workers, which it serves through the others. An
	// unknown node → NotFound; one whose partitions no other living node could take → FailedPrecondition.
	DrainNode(ctx context.Context, id string) error
	// Rebalance ends all drains and makes every node check at once which partitions it should own.
	Rebalance(ctx context.Context) error
	// WatchNodes calls f with the living nodes, at once and after each change, until ctx ends or f fails.
	WatchNodes(ctx context.Context, f func([]Node) error) error
}

// ClusterStatus is a snapshot of a cluster.
type ClusterStatus struct {
	Partitions []PartitionOwner // all of them, by number
	Nodes      []Node           // by id
	Warnings   []string         // a sentence for each setting in which nodes differ although they should not
}

// Node is a living node.
type Node struct {
	ID       string
	Address  string // gRPC address for peers and clients, host:port
	HTTP     string // address of the REST API; may be empty
	Sidecars string // address for Dapr sidecars; may be empty
	Draining bool   // it is to own nothing
	Owns     int    // number of partitions
	// Skew is how far its wall clock was ahead of the store's when last measured; valid only if SkewKnown.
	Skew      time.Duration
	SkewKnown bool
	// State is its state, and Reason the reason, if there is more to say.
	State  NodeState
	Reason string
}

// NodeState is the state of a node. Only fit nodes get a share of the partitions. While no node is fit,
// leaving nodes keep what they own; if there are none, unfit nodes try.
type NodeState string

// The states of nodes.
const (
	NodeUnknown NodeState = ""        // its version does not report a state
	NodeFit     NodeState = "fit"     // it has proven that it can claim partitions and commit
	NodeProving NodeState = "proving" // it is new, and has not proven that yet
	NodeUnfit   NodeState = "unfit"   // alive, but cannot claim or commit; others own its share until it can
	NodeDrained NodeState = "drained" // by DrainNode
	NodeSkewed  NodeState = "clock"   // its clock differs from the store's
	NodeLeaving NodeState = "leaving" // it was told to end
)

// PartitionOwner tells which node owns a partition.
type PartitionOwner struct {
	Partition int
	Epoch     uint64
	Node      string    // empty: none
	Until     time.Time // end of the lease, by the store's clock
}

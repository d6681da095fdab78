package carillon

import (
	"context"
	"time"
)

// Cluster shows the nodes that share a store, and moves partitions between them. A node that is alone has one, too.
type Cluster interface {
	// ClusterStatus is who lives and who owns what, as the store has it at this moment.
	ClusterStatus(ctx context.Context) (ClusterStatus, error)
	// DrainNode has a living node hand its partitions over to others; it owns none until it starts again or Rebalance is
	// called. It goes on to take calls and workers, which it serves through the others. Unknown → NotFound; one whose
	// partitions no other living node could take → FailedPrecondition.
	DrainNode(ctx context.Context, id string) error
	// Rebalance ends all drains and has every node look at once who should own what.
	Rebalance(ctx context.Context) error
	// WatchNodes calls f with the living nodes, at once and whenever that changes, until ctx ends or f fails.
	WatchNodes(ctx context.Context, f func([]Node) error) error
}

// ClusterStatus is a cluster at one moment.
type ClusterStatus struct {
	Partitions []PartitionOwner // all of them, by number
	Nodes      []Node           // by id
	Warnings   []string         // settings in which the nodes differ although they should not, a sentence for each
}

// Node is a living node.
type Node struct {
	ID       string
	Address  string // where its gRPC is reached by peers and clients, host:port
	HTTP     string // where its REST API is reached; may be empty
	Sidecars string // where Dapr's sidecars reach it; may be empty
	Draining bool   // it is to own nothing
	Owns     int    // partitions
	// Skew is how far its wall clock is ahead of the store's, as it measured last. Known only if SkewKnown.
	Skew      time.Duration
	SkewKnown bool
	// State is where it stands, and Reason why, if there is more to say.
	State  NodeState
	Reason string
}

// NodeState is where a node stands. Only a fit one gets a share of the partitions; while no node is fit, those that leave keep what
// they own, and if there are none of those the unfit ones try.
type NodeState string

// The states of nodes.
const (
	NodeUnknown NodeState = ""        // it is of a version that does not say
	NodeFit     NodeState = "fit"     // it has proven that it can claim partitions and commit
	NodeProving NodeState = "proving" // it is new, and has not yet
	NodeUnfit   NodeState = "unfit"   // it lives, and fails to claim partitions or to commit; others own its share until it can
	NodeDrained NodeState = "drained" // by DrainNode
	NodeSkewed  NodeState = "clock"   // its clock is off the store's
	NodeLeaving NodeState = "leaving" // it was told to end
)

// PartitionOwner says who owns a partition.
type PartitionOwner struct {
	Partition int
	Epoch     uint64
	Node      string    // empty: nobody
	Until     time.Time // of the lease, by the store's clock
}

package wire

import (
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// ClusterToProto is the cluster as a message.
func ClusterToProto(c *carillon.ClusterStatus) *pb.Cluster {
	return &pb.Cluster{Nodes: NodesToProto(c.Nodes),
		Warnings: toEach(c.Warnings, func(w *string) string { return text(*w) }),
		Partitions: toEach(c.Partitions, func(p *carillon.PartitionOwner) *pb.PartitionOwner {
			return &pb.PartitionOwner{Partition: clampInt32(p.Partition), Epoch: p.Epoch, Node: text(p.Node),
				LeaseUntil: timestamp(p.Until)}
		})}
}

// ClusterFromProto is the message as a cluster.
func ClusterFromProto(m *pb.Cluster) (carillon.ClusterStatus, error) {
	nodes, err := NodesFromProto(m.GetNodes())
	return carillon.ClusterStatus{Nodes: nodes, Warnings: m.GetWarnings(),
		Partitions: fromEach(m.GetPartitions(), func(p *pb.PartitionOwner) carillon.PartitionOwner {
			return carillon.PartitionOwner{Partition: int(p.GetPartition()), Epoch: p.GetEpoch(), Node: p.GetNode(),
				Until: instant(p.GetLeaseUntil())}
		})}, err
}

// NodesToProto is the nodes as messages.
func NodesToProto(nodes []carillon.Node) []*pb.Node {
	return toEach(nodes, func(n *carillon.Node) *pb.Node {
		m := &pb.Node{Id: text(n.ID), Address: text(n.Address), HttpAddress: text(n.HTTP),
			SidecarAddress: text(n.Sidecars), Draining: n.Draining, Owns: clampInt32(n.Owns),
			State: text(string(n.State)), Reason: text(n.Reason)}
		if n.SkewKnown {
			skew := n.Skew.String()
			m.Skew = &skew
		}
		return m
	})
}

// NodesFromProto is the messages as nodes.
func NodesFromProto(ms []*pb.Node) ([]carillon.Node, error) {
	var f first
	nodes := fromEach(ms, func(m *pb.Node) carillon.Node {
		return carillon.Node{ID: m.GetId(), Address: m.GetAddress(), HTTP: m.GetHttpAddress(),
			Sidecars: m.GetSidecarAddress(), Draining: m.GetDraining(), Owns: int(m.GetOwns()),
			Skew: f.skew(m), SkewKnown: m.Skew != nil,
			State: carillon.NodeState(m.GetState()), Reason: m.GetReason()}
	})
	return nodes, f.err
}

// skew may be negative, which no other duration of the API may be.
func (f *first) skew(m *pb.Node) time.Duration {
	if m.Skew == nil {
		return 0
	}
	d, err := time.ParseDuration(m.GetSkew())
	if err != nil {
		f.keep(invalid("skew", "%q is no duration", clip(m.GetSkew())))
	}
	return d
}

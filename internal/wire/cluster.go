package wire

import (
	"time"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
)

// ClusterToProto is the cluster as a message.
func ClusterToProto(c *carillon.ClusterStatus) *pb.Cluster {
	m := &pb.Cluster{Nodes: NodesToProto(c.Nodes), Partitions: make([]*pb.PartitionOwner, len(c.Partitions))}
	for _, w := range c.Warnings {
		m.Warnings = append(m.Warnings, text(w))
	}
	for i, p := range c.Partitions {
		m.Partitions[i] = &pb.PartitionOwner{Partition: clampInt32(p.Partition), Epoch: p.Epoch,
			Node: text(p.Node), LeaseUntil: timestamp(p.Until)}
	}
	return m
}

// ClusterFromProto is the message as a cluster.
func ClusterFromProto(m *pb.Cluster) (carillon.ClusterStatus, error) {
	var f first
	c := carillon.ClusterStatus{Nodes: f.nodes(m.GetNodes()), Warnings: m.GetWarnings(),
		Partitions: make([]carillon.PartitionOwner, len(m.GetPartitions()))}
	for i, p := range m.GetPartitions() {
		c.Partitions[i] = carillon.PartitionOwner{Partition: int(p.GetPartition()), Epoch: p.GetEpoch(), Node: p.GetNode(),
			Until: instant(p.GetLeaseUntil())}
	}
	return c, f.err
}

// NodesToProto is the nodes as messages.
func NodesToProto(nodes []carillon.Node) []*pb.Node {
	ms := make([]*pb.Node, len(nodes))
	for i, n := range nodes {
		ms[i] = &pb.Node{Id: text(n.ID), Address: text(n.Address), HttpAddress: text(n.HTTP), SidecarAddress: text(n.Sidecars),
			Draining: n.Draining, Owns: clampInt32(n.Owns), State: text(string(n.State)), Reason: text(n.Reason)}
		if n.SkewKnown {
			skew := n.Skew.String()
			ms[i].Skew = &skew
		}
	}
	return ms
}

// NodesFromProto is the messages as nodes.
func NodesFromProto(ms []*pb.Node) ([]carillon.Node, error) {
	var f first
	return f.nodes(ms), f.err
}

func (f *first) nodes(ms []*pb.Node) []carillon.Node {
	nodes := make([]carillon.Node, len(ms))
	for i, m := range ms {
		nodes[i] = carillon.Node{ID: m.GetId(), Address: m.GetAddress(), HTTP: m.GetHttpAddress(),
			Sidecars: m.GetSidecarAddress(),
			Draining: m.GetDraining(), Owns: int(m.GetOwns()), Skew: f.skew(m), SkewKnown: m.Skew != nil,
			State: carillon.NodeState(m.GetState()), Reason: m.GetReason()}
	}
	return nodes
}

// skew may be negative, which no other duration of the API may be.
func (f *first) skew(m *pb.Node) time.Duration {
	if m.Skew == nil {
		return 0
	}
	d, err := time.ParseDuration(m.GetSkew())
	if err != nil {
		err = carillon.Errorf(carillon.InvalidArgument, "skew", "%q is no duration", clip(m.GetSkew()))
	}
	return keep(f, d, err)
}

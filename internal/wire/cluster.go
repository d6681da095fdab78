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

// QueueQueryToProto is the query as a request.
func QueueQueryToProto(q *carillon.QueueQuery) *pb.ListQueuesRequest {
	return &pb.ListQueuesRequest{Namespace: q.Namespace, Kind: q.Kind, PageSize: clampInt32(q.PageSize),
		PageToken: q.PageToken}
}

// QueueQueryFromProto is the request as a query.
func QueueQueryFromProto(m *pb.ListQueuesRequest) carillon.QueueQuery {
	return carillon.QueueQuery{Namespace: m.GetNamespace(), Kind: m.GetKind(), PageSize: int(m.GetPageSize()),
		PageToken: m.GetPageToken()}
}

// WorkerQueryToProto is the query as a request.
func WorkerQueryToProto(q *carillon.WorkerQuery) *pb.ListWorkersRequest {
	return &pb.ListWorkersRequest{Namespace: q.Namespace, Kind: q.Kind, Queue: q.Queue,
		PageSize: clampInt32(q.PageSize), PageToken: q.PageToken}
}

// WorkerQueryFromProto is the request as a query.
func WorkerQueryFromProto(m *pb.ListWorkersRequest) carillon.WorkerQuery {
	return carillon.WorkerQuery{Namespace: m.GetNamespace(), Kind: m.GetKind(), Queue: m.GetQueue(),
		PageSize: int(m.GetPageSize()), PageToken: m.GetPageToken()}
}

// QueuesToProto is the queues as messages.
func QueuesToProto(queues []carillon.Queue) []*pb.Queue {
	return toEach(queues, func(q *carillon.Queue) *pb.Queue {
		return &pb.Queue{Namespace: text(q.Namespace), Kind: text(q.Kind), Name: text(q.Name),
			Ready: int64(q.Ready), Limited: int64(q.Limited), Staged: int64(q.Staged), OldestDue: timestamp(q.Oldest),
			Consumers: clampInt32(q.Consumers), Silent: clampInt32(q.Silent), Credits: int64(q.Credits),
			InFlight: int64(q.InFlight), Unserved: q.Unserved, Pause: QueuePauseToProto(q.Pause)}
	})
}

// QueuesFromProto is the messages as queues.
func QueuesFromProto(ms []*pb.Queue) []carillon.Queue {
	return fromEach(ms, func(m *pb.Queue) carillon.Queue {
		return carillon.Queue{Namespace: m.GetNamespace(), Kind: m.GetKind(), Name: m.GetName(),
			Ready: int(m.GetReady()), Limited: int(m.GetLimited()), Staged: int(m.GetStaged()),
			Oldest: instant(m.GetOldestDue()), Consumers: int(m.GetConsumers()), Silent: int(m.GetSilent()),
			Credits: int(m.GetCredits()), InFlight: int(m.GetInFlight()), Unserved: m.GetUnserved(),
			Pause: QueuePauseFromProto(m.GetPause())}
	})
}

// QueuePauseToProto is the pause as a message; nil if there is none.
func QueuePauseToProto(p carillon.QueuePause) *pb.QueuePause {
	if p.Since.IsZero() {
		return nil
	}
	return &pb.QueuePause{Since: timestamp(p.Since), Note: text(p.Note)}
}

// QueuePauseFromProto is the reverse.
func QueuePauseFromProto(m *pb.QueuePause) carillon.QueuePause {
	return carillon.QueuePause{Since: instant(m.GetSince()), Note: m.GetNote()}
}

// WorkersToProto is the connections as messages.
func WorkersToProto(workers []carillon.Worker) []*pb.Worker {
	return toEach(workers, WorkerToProto)
}

// WorkersFromProto is the messages as connections.
func WorkersFromProto(ms []*pb.Worker) []carillon.Worker { return fromEach(ms, WorkerFromProto) }

// WorkerToProto is a connection as a message.
func WorkerToProto(w *carillon.Worker) *pb.Worker {
	return &pb.Worker{Namespace: text(w.Namespace), Kind: text(w.Kind), Id: text(w.ID), Node: text(w.Node),
		Labels: w.Labels, Queues: w.Queues, Since: timestamp(w.Since), Credits: int64(w.Credits),
		InFlight: int64(w.InFlight), Silent: w.Silent, Version: text(w.Version), LastSeen: timestamp(w.LastSeen)}
}

// WorkerFromProto is the message as a connection.
func WorkerFromProto(m *pb.Worker) carillon.Worker {
	return carillon.Worker{Namespace: m.GetNamespace(), Kind: m.GetKind(), ID: m.GetId(), Node: m.GetNode(),
		Labels: m.GetLabels(), Queues: m.GetQueues(), Since: instant(m.GetSince()), Credits: int(m.GetCredits()),
		InFlight: int(m.GetInFlight()), Silent: m.GetSilent(), Version: m.GetVersion(),
		LastSeen: instant(m.GetLastSeen())}
}

package peer

import (
	"context"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/queues"
)

// OwnQueues implements [cluster.Control].
func (c *Calls) OwnQueues(ctx context.Context, q queues.Query) ([]carillon.Queue, error) {
	m, err := c.service.OwnQueues(ctx, &peerv1.OwnQueuesRequest{NotAfter: c.notAfter(ctx),
		Namespace: q.Namespace, Kind: q.Kind, Queue: q.Queue, After: placeToProto(q.After),
		Limit: int32(q.Limit)})
	return wire.QueuesFromProto(m.GetQueues()), err
}

// OwnWorkers implements [cluster.Control].
func (c *Calls) OwnWorkers(ctx context.Context, q queues.Query) ([]queues.Connection, error) {
	m, err := c.service.OwnWorkers(ctx, &peerv1.OwnWorkersRequest{NotAfter: c.notAfter(ctx),
		Namespace: q.Namespace, Kind: q.Kind, Queue: q.Queue, After: placeToProto(q.After),
		Limit: int32(q.Limit)})
	var all []queues.Connection
	for _, w := range m.GetWorkers() {
		all = append(all, queues.Connection{Worker: wire.WorkerFromProto(w.GetWorker()), Nth: w.GetNth()})
	}
	return all, err
}

// OwnQueues implements the rpc.
func (s *Server) OwnQueues(ctx context.Context,
	m *peerv1.OwnQueuesRequest) (*peerv1.OwnQueuesResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.OwnQueuesResponse, error) {
		limit, err := limitOf(m.GetLimit())
		if err != nil {
			return nil, err
		}
		own, err := s.served.Control.OwnQueues(ctx, queues.Query{Namespace: m.GetNamespace(), Kind: m.GetKind(),
			Queue: m.GetQueue(), After: placeFromProto(m.GetAfter()), Limit: limit})
		return &peerv1.OwnQueuesResponse{Queues: wire.QueuesToProto(own)}, err
	})
}

// OwnWorkers implements the rpc.
func (s *Server) OwnWorkers(ctx context.Context,
	m *peerv1.OwnWorkersRequest) (*peerv1.OwnWorkersResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.OwnWorkersResponse, error) {
		limit, err := limitOf(m.GetLimit())
		if err != nil {
			return nil, err
		}
		own, err := s.served.Control.OwnWorkers(ctx, queues.Query{Namespace: m.GetNamespace(), Kind: m.GetKind(),
			Queue: m.GetQueue(), After: placeFromProto(m.GetAfter()), Limit: limit})
		answer := &peerv1.OwnWorkersResponse{}
		for i := range own {
			answer.Workers = append(answer.Workers,
				&peerv1.OwnWorker{Worker: wire.WorkerToProto(&own[i].Worker), Nth: own[i].Nth})
		}
		return answer, err
	})
}

func (c *Calls) pauseIn(ctx context.Context, p int, m message.PauseQueue) (carillon.QueuePause, error) {
	reply, err := c.service.PauseIn(ctx, &peerv1.PauseInRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Namespace: m.Queue.Namespace, Kind: m.Queue.Kind, Name: m.Queue.Address, Paused: m.Paused, Note: m.Note})
	return wire.QueuePauseFromProto(reply.GetPause()), err
}

// PauseIn implements the rpc.
func (s *Server) PauseIn(ctx context.Context, m *peerv1.PauseInRequest) (*peerv1.PauseInResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.PauseInResponse, error) {
		pause, err := ask(ctx, s, m.GetPartition(), message.PauseQueue{Queue: queueIn(m), Paused: m.GetPaused(),
			Note: m.GetNote()})
		return &peerv1.PauseInResponse{Pause: wire.QueuePauseToProto(pause)}, err
	})
}

func (c *Calls) purgeIn(ctx context.Context, p int, m message.PurgeQueue) (carillon.PurgeResult, error) {
	reply, err := c.service.PurgeIn(ctx, &peerv1.PurgeInRequest{NotAfter: c.notAfter(ctx), Partition: int32(p),
		Namespace: m.Queue.Namespace, Kind: m.Queue.Kind, Name: m.Queue.Address, DryRun: m.DryRun})
	return carillon.PurgeResult{Runs: int(reply.GetPurged()), More: reply.GetMore()}, err
}

// PurgeIn implements the rpc.
func (s *Server) PurgeIn(ctx context.Context, m *peerv1.PurgeInRequest) (*peerv1.PurgeInResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.PurgeInResponse, error) {
		done, err := ask(ctx, s, m.GetPartition(), message.PurgeQueue{Queue: queueIn(m), DryRun: m.GetDryRun()})
		return &peerv1.PurgeInResponse{Purged: int64(done.Runs), More: done.More}, err
	})
}

// queueIn returns the queue that a request names.
func queueIn(m interface {
	GetNamespace() string
	GetKind() string
	GetName() string
}) delivery.Queue {
	return delivery.Queue{Namespace: m.GetNamespace(), Kind: m.GetKind(), Address: m.GetName()}
}

// ReloadQueues implements [cluster.Control].
func (c *Calls) ReloadQueues(ctx context.Context) error {
	_, err := c.service.ReloadQueues(ctx, &peerv1.ReloadQueuesRequest{NotAfter: c.notAfter(ctx)})
	return err
}

// ReloadQueues implements the rpc.
func (s *Server) ReloadQueues(ctx context.Context,
	m *peerv1.ReloadQueuesRequest) (*peerv1.ReloadQueuesResponse, error) {
	return serve(ctx, s, m, func(ctx context.Context) (*peerv1.ReloadQueuesResponse, error) {
		return &peerv1.ReloadQueuesResponse{}, s.served.Control.ReloadQueues(ctx)
	})
}

// limitOf checks how many rows are asked for: a page and one more.
func limitOf(limit int32) (int, error) {
	if limit < 1 || limit > carillon.MaxBatch+1 {
		return 0, carillon.Errorf(carillon.InvalidArgument, "limit", "%d is not between 1 and %d", limit,
			carillon.MaxBatch+1)
	}
	return int(limit), nil
}

// placeToProto leaves the first place out.
func placeToProto(p queues.Place) *peerv1.Place {
	if p == (queues.Place{}) {
		return nil
	}
	return &peerv1.Place{Namespace: p.Namespace, Kind: p.Kind, Name: p.Address, Node: p.Node, Nth: p.Nth}
}

func placeFromProto(m *peerv1.Place) queues.Place {
	q := delivery.Queue{Namespace: m.GetNamespace(), Kind: m.GetKind(), Address: m.GetName()}
	return queues.Place{Queue: q, Node: m.GetNode(), Nth: m.GetNth()}
}

package peer_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/internal/queues"
)

// observed is a node that knows one queue and one connection, and keeps what it was asked.
type observed struct {
	node
	asked   queues.Query
	queue   carillon.Queue
	workers []queues.Connection
	ingests []carillon.Ingest
}

func (o *observed) OwnQueues(_ context.Context, q queues.Query) ([]carillon.Queue, error) {
	o.asked = q
	return []carillon.Queue{o.queue}, nil
}

func (o *observed) OwnWorkers(_ context.Context, q queues.Query) ([]queues.Connection, error) {
	o.asked = q
	return o.workers, nil
}

func (o *observed) OwnIngests(_ context.Context, q queues.Query) ([]carillon.Ingest, error) {
	o.asked = q
	return o.ingests, nil
}

// TestQueuesWorkersAndIngestsCrossWhole, and so do queries.
func TestQueuesWorkersAndIngestsCrossWhole(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	n := &observed{
		queue: carillon.Queue{Namespace: "n", Kind: "dapr", Name: "app/a", Ready: 1, Limited: 2, Staged: 3, Oldest: at,
			Consumers: 5, Silent: 4, Credits: 6, InFlight: 7, Unserved: true,
			Pause: carillon.QueuePause{Since: at, Note: "why"}},
		workers: []queues.Connection{{Nth: 9, Worker: carillon.Worker{Namespace: "n", Kind: "worker", ID: "w", Node: "far",
			Labels: map[string]string{"a": "b"}, Queues: []string{"q", "r"}, Since: at, Credits: 1, InFlight: 2,
			Silent: true, Version: "carillon-go/v1", LastSeen: at.Add(time.Second)}}},
		ingests: []carillon.Ingest{{Namespace: "n", Name: "i", Broker: "b", Kind: "nats", Topic: "t", Priority: 1, Group: "g",
			DeadLetter: "b/dead", IngestState: carillon.IngestState{Lag: 3, LagKnown: true, InFlight: 1, LastMessage: at},
			Readers: []carillon.IngestReader{{Node: "far", Since: at, Error: "why", ErrorSince: at, Retrying: "that",
				IngestState: carillon.IngestState{Counts: carillon.IngestCounts{Done: 1, Repeated: 2, Dead: 3, Retried: 4}}}}}},
	}
	c, _ := serveAs(t, n, peer.Options{})
	q := queues.Query{Namespace: "n", Kind: "dapr", Queue: "app/a", Limit: 3, After: queues.Place{
		Queue: delivery.Queue{Namespace: "m", Kind: "http", Address: "x"}, Node: "near", Nth: 7}}
	got, err := c.OwnQueues(t.Context(), q)
	if err != nil || !reflect.DeepEqual(got, []carillon.Queue{n.queue}) || n.asked != q {
		t.Errorf("%+v for %+v, %v", got, n.asked, err)
	}
	q.Queue = "r"
	workers, err := c.OwnWorkers(t.Context(), q)
	if err != nil || !reflect.DeepEqual(workers, n.workers) || n.asked != q {
		t.Errorf("%+v for %+v, %v", workers, n.asked, err)
	}
	q.Queue, q.Kind = "", ""
	ingests, err := c.OwnIngests(t.Context(), q)
	if err != nil || !reflect.DeepEqual(ingests, n.ingests) || n.asked != q {
		t.Errorf("%+v for %+v, %v", ingests, n.asked, err)
	}
	for _, limit := range []int{0, -1, carillon.MaxBatch + 2} {
		if _, err := c.OwnIngests(t.Context(), queues.Query{Limit: limit}); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("ingests, limit %d: %v", limit, err)
		}
		if _, err := c.OwnQueues(t.Context(), queues.Query{Limit: limit}); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// pausing is a node that keeps what it was asked about a queue.
type pausing struct {
	node
	asked    message.Message
	reloaded int
}

func (p *pausing) Ask(_ context.Context, part int, m message.Message) (any, error) {
	p.asked = m
	if _, ok := m.(message.PurgeQueue); ok {
		return carillon.PurgeResult{Runs: 1 << 33, More: part == 3}, nil
	}
	if m.(message.PauseQueue).Paused {
		return carillon.QueuePause{Since: time.Unix(1, 2).UTC(), Note: "why"}, nil
	}
	return carillon.QueuePause{}, nil
}

func (p *pausing) ReloadQueues(context.Context) error { p.reloaded++; return nil }

// TestPausesAndPurgesCrossWhole, with their answers.
func TestPausesAndPurgesCrossWhole(t *testing.T) {
	n := &pausing{}
	c, _ := serveAs(t, n, peer.Options{})
	q := delivery.Queue{Namespace: "n", Kind: "http", Address: "example.com:80"}
	for want, m := range map[carillon.QueuePause]message.PauseQueue{
		{Since: time.Unix(1, 2).UTC(), Note: "why"}: {Queue: q, Paused: true, Note: "why"}, {}: {Queue: q}} {
		got, err := message.Send(t.Context(), c, 3, m)
		if err != nil || got != want || n.asked != message.Message(m) {
			t.Errorf("%+v for %+v, %v", got, n.asked, err)
		}
	}
	purge := message.PurgeQueue{Queue: q, DryRun: true}
	got, err := message.Send(t.Context(), c, 3, purge)
	if err != nil || got != (carillon.PurgeResult{Runs: 1 << 33, More: true}) || n.asked != message.Message(purge) {
		t.Errorf("%+v for %+v, %v", got, n.asked, err)
	}
	if err := c.ReloadQueues(t.Context()); err != nil || n.reloaded != 1 {
		t.Errorf("read %d times, %v", n.reloaded, err)
	}
}

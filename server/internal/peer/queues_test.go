package peer_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/peer"
	"github.com/carillonhq/carillon/server/internal/queues"
)

// observed is a node that knows one queue and one connection, and keeps what it was asked.
type observed struct {
	node
	asked   queues.Query
	queue   carillon.Queue
	workers []queues.Connection
}

func (o *observed) OwnQueues(_ context.Context, q queues.Query) ([]carillon.Queue, error) {
	o.asked = q
	return []carillon.Queue{o.queue}, nil
}

func (o *observed) OwnWorkers(_ context.Context, q queues.Query) ([]queues.Connection, error) {
	o.asked = q
	return o.workers, nil
}

// TestQueuesAndWorkersCrossWhole, and so do queries.
func TestQueuesAndWorkersCrossWhole(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	n := &observed{
		queue: carillon.Queue{Namespace: "n", Kind: "dapr", Name: "app/a", Ready: 1, Limited: 2, Staged: 3, Oldest: at,
			Consumers: 5, Silent: 4, Credits: 6, InFlight: 7, Unserved: true},
		workers: []queues.Connection{{Nth: 9, Worker: carillon.Worker{Namespace: "n", Kind: "worker", ID: "w", Node: "far",
			Labels: map[string]string{"a": "b"}, Queues: []string{"q", "r"}, Since: at, Credits: 1, InFlight: 2,
			Silent: true, Version: "carillon-go/v1", LastSeen: at.Add(time.Second)}}},
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
	for _, limit := range []int{0, -1, carillon.MaxBatch + 2} {
		if _, err := c.OwnQueues(t.Context(), queues.Query{Limit: limit}); carillon.KindOf(err) != carillon.InvalidArgument {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

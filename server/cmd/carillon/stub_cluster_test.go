package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
)

// stubCluster is a Cluster of the nodes a, b and c, which owns nothing, and one that is gone and keeps what
// it had. A drain of b moves one of its partitions each time that somebody looks.
type stubCluster struct {
	carillon.Cluster
	mu     sync.Mutex
	status carillon.ClusterStatus
	paused carillon.QueuePause
	purged int
}

func newStubCluster() *stubCluster {
	owner := func(n int, epoch uint64, node string, lease time.Duration) carillon.PartitionOwner {
		return carillon.PartitionOwner{Partition: n, Epoch: epoch, Node: node, Until: stubNow.Add(lease)}
	}
	const lease = 4 * time.Second
	return &stubCluster{status: carillon.ClusterStatus{
		Warnings: []string{"--allow-target differs: 10.0.0.0/8 on a; none on b"},
		Nodes: []carillon.Node{
			{ID: "a", Address: "10.0.0.1:7070", HTTP: "10.0.0.1:7080", Owns: 2,
				Skew: 1234 * time.Microsecond, SkewKnown: true, State: carillon.NodeFit},
			{ID: "b", Address: "10.0.0.2:7070", Sidecars: "10.0.0.2:50006", Owns: 2},
			{ID: "c", Address: "10.0.0.3:7070", Skew: -400 * time.Microsecond, SkewKnown: true,
				State: carillon.NodeUnfit, Reason: "claim: permission denied"},
		},
		Partitions: []carillon.PartitionOwner{owner(0, 7, "a", lease), owner(1, 7, "a", lease),
			owner(2, 3, "b", lease), owner(3, 3, "b", lease),
			owner(4, 2, "stuck", 0), {Partition: 5, Epoch: 9}},
	}}
}

func (c *stubCluster) ClusterStatus(context.Context) (carillon.ClusterStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := &c.status.Nodes[1]; b.Draining && b.Owns > 0 {
		b.Owns--
		c.status.Partitions[2+b.Owns].Node = "a"
		c.status.Partitions[5].Node = "a"
	}
	return carillon.ClusterStatus{Nodes: slices.Clone(c.status.Nodes),
		Partitions: slices.Clone(c.status.Partitions), Warnings: c.status.Warnings}, nil
}

func (c *stubCluster) DrainNode(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "b" {
		c.status.Nodes[1].Draining = true
	}
	return nil
}

func (c *stubCluster) Rebalance(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Nodes[1].Draining = false
	return nil
}

// ListQueues has two pages. Node c does not answer.
func (c *stubCluster) ListQueues(_ context.Context, q carillon.QueueQuery) (carillon.QueuePage, error) {
	if err := q.Validate(); err != nil {
		return carillon.QueuePage{}, err
	}
	if q.PageToken == "" {
		return carillon.QueuePage{NextPageToken: "next", Unheard: []string{"c"}, Queues: []carillon.Queue{{
			Namespace: "default", Kind: "worker", Name: "mail", Ready: 2, Limited: 1, Staged: 1000, Oldest: stubNow,
			Consumers: 2, Silent: 2, InFlight: 3, Unserved: true, Pause: c.paused}}}, nil
	}
	return carillon.QueuePage{Unheard: []string{"c"}, Queues: []carillon.Queue{{Namespace: "shop", Kind: "http",
		Name: "example.com:443", Consumers: 1, Credits: 100}}}, nil
}

// PauseQueue pauses on all nodes but c.
func (c *stubCluster) PauseQueue(_ context.Context, key carillon.QueueKey,
	note string) (carillon.QueueChange, error) {
	if err := key.Validate(); err != nil {
		return carillon.QueueChange{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = carillon.QueuePause{Since: stubNow, Note: note}
	return carillon.QueueChange{Pause: c.paused, Unheard: []string{"c"}}, nil
}

func (c *stubCluster) ResumeQueue(context.Context, carillon.QueueKey) (carillon.QueueChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := c.paused
	c.paused = carillon.QueuePause{}
	return carillon.QueueChange{Ended: ended}, nil
}

// PurgeQueue has 5 runs to purge, of which a call does 3.
func (c *stubCluster) PurgeQueue(_ context.Context, _ carillon.QueueKey,
	o carillon.PurgeOptions) (carillon.PurgeResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := 5 - c.purged
	if o.DryRun {
		return carillon.PurgeResult{Runs: left}, nil
	}
	n := min(3, left)
	c.purged += n
	return carillon.PurgeResult{Runs: n, More: n < left}, nil
}

// ListIngests has one page.
func (c *stubCluster) ListIngests(_ context.Context, q carillon.IngestQuery) (carillon.IngestPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.IngestPage{}, err
	}
	state := carillon.IngestState{Lag: 7, LagKnown: true, InFlight: 2, LastMessage: stubNow,
		Counts: carillon.IngestCounts{Done: 40, Repeated: 3, Dead: 1, Retried: 5}}
	return carillon.IngestPage{Unheard: []string{"c"}, Ingests: []carillon.Ingest{
		{Namespace: "shop", Name: "orders", Broker: "events", Kind: "redis", Topic: "jobs", Priority: 1, Group: "carillon",
			DeadLetter: "events/rejected", IngestState: state, Readers: []carillon.IngestReader{
				{Node: "a", Since: stubNow, Connected: true, IngestState: state},
				{Node: "b", Since: stubNow, Error: "connection refused", ErrorSince: stubNow}}},
		{Namespace: "shop", Name: "quiet", Broker: "rabbit", Kind: "amqp", Topic: "q", Priority: 1,
			Readers: []carillon.IngestReader{{Node: "a", Since: stubNow}}},
	}}, nil
}

// ListWorkers has one page.
func (c *stubCluster) ListWorkers(_ context.Context, q carillon.WorkerQuery) (carillon.WorkerPage, error) {
	if err := q.Validate(); err != nil {
		return carillon.WorkerPage{}, err
	}
	return carillon.WorkerPage{Workers: []carillon.Worker{
		{Namespace: "default", Kind: "worker", ID: "host-1", Node: "a", Labels: map[string]string{"zone": "b", "arch": "arm"},
			Queues: []string{"mail", "print"}, Since: stubNow, Credits: 7, InFlight: 3,
			Version: "carillon-go/v0.3.1", LastSeen: stubNow.Add(time.Minute)},
		{Namespace: "default", Kind: "dapr", ID: "app", Node: "b", Queues: []string{"app/shop"}, Since: stubNow, Silent: true},
	}}, nil
}

package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/server/internal/grpcapi"
)

// three is a Cluster of three nodes.
type three struct {
	status carillon.ClusterStatus
	asked  []string
}

func (c *three) ClusterStatus(context.Context) (carillon.ClusterStatus, error) { return c.status, nil }

func (c *three) DrainNode(_ context.Context, id string) error {
	c.asked = append(c.asked, "drain "+id)
	if id == "nobody" {
		return carillon.Errorf(carillon.NotFound, "id", "there is no node %q", id)
	}
	return nil
}

func (c *three) Rebalance(context.Context) error {
	c.asked = append(c.asked, "rebalance")
	return nil
}

func (c *three) WatchNodes(ctx context.Context, f func([]carillon.Node) error) error {
	for n := range c.status.Nodes {
		if err := f(c.status.Nodes[:n+1]); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c *three) ListQueues(_ context.Context, q carillon.QueueQuery) (carillon.QueuePage, error) {
	return carillon.QueuePage{Queues: []carillon.Queue{{Namespace: q.Namespace, Kind: q.Kind, Name: "q", Ready: 1,
		Staged: 1 << 40, Unserved: true}}, NextPageToken: q.PageToken + "+", Unheard: []string{"c"}}, nil
}

func (c *three) PauseQueue(_ context.Context, key carillon.QueueKey, note string) (carillon.QueueChange, error) {
	if key != (carillon.QueueKey{Namespace: "n", Kind: "http", Name: "example.com:80"}) {
		return carillon.QueueChange{}, fmt.Errorf("pause of %+v", key)
	}
	return carillon.QueueChange{Pause: carillon.QueuePause{Since: time.Unix(1, 2).UTC(), Note: note},
		Unheard: []string{"c"}}, nil
}

func (c *three) ResumeQueue(context.Context, carillon.QueueKey) (carillon.QueueChange, error) {
	return carillon.QueueChange{Unheard: []string{"b", "c"}}, nil
}

func (c *three) PurgeQueue(_ context.Context, _ carillon.QueueKey,
	o carillon.PurgeOptions) (carillon.PurgeResult, error) {
	return carillon.PurgeResult{Runs: 1 << 40, More: !o.DryRun}, nil
}

func (c *three) ListWorkers(_ context.Context, q carillon.WorkerQuery) (carillon.WorkerPage, error) {
	return carillon.WorkerPage{Workers: []carillon.Worker{{Namespace: q.Namespace, Kind: q.Kind, ID: "w", Node: "a",
		Queues: []string{q.Queue}, Credits: q.PageSize}}, NextPageToken: q.PageToken + "+", Unheard: []string{"c"}}, nil
}

func (c *three) ListIngests(_ context.Context, q carillon.IngestQuery) (carillon.IngestPage, error) {
	return carillon.IngestPage{Ingests: ingests(q.Namespace, q.PageSize), NextPageToken: q.PageToken + "+",
		Unheard: []string{"c"}}, nil
}

// ingests are topics with everything that there is to say, and with nothing.
func ingests(namespace string, lag int) []carillon.Ingest {
	state := carillon.IngestState{Lag: int64(lag), LagKnown: true, InFlight: 2, LastMessage: time.Unix(3, 4).UTC(),
		Counts: carillon.IngestCounts{Done: 1 << 40, Repeated: 5, Dead: 6, Retried: 7}}
	return []carillon.Ingest{{Namespace: namespace, Name: "orders", Broker: "b", Kind: "kafka", Topic: "t", Priority: 2,
		Group: "g", DeadLetter: "b/dead", IngestState: state, Readers: []carillon.IngestReader{{Node: "a",
			Since: time.Unix(1, 2).UTC(), Connected: true, Error: "e", ErrorSince: time.Unix(5, 0).UTC(), Retrying: "r",
			IngestState: state}}},
		{Name: "quiet", Readers: []carillon.IngestReader{{Node: "a"}}}}
}

// steer pauses, resumes and purges a queue of three.
func steer(t *testing.T, c carillon.Queues) {
	t.Helper()
	key := carillon.QueueKey{Namespace: "n", Kind: "http", Name: "example.com:80"}
	change, err := c.PauseQueue(t.Context(), key, "why")
	if want := (carillon.QueuePause{Since: time.Unix(1, 2).UTC(), Note: "why"}); err != nil || change.Pause != want ||
		!reflect.DeepEqual(change.Unheard, []string{"c"}) {
		t.Errorf("paused: %+v, %v", change, err)
	}
	change, err = c.ResumeQueue(t.Context(), key)
	if err != nil || change.Pause != (carillon.QueuePause{}) || len(change.Unheard) != 2 {
		t.Errorf("resumed: %+v, %v", change, err)
	}
	for _, dry := range []bool{false, true} {
		purged, err := c.PurgeQueue(t.Context(), key, carillon.PurgeOptions{DryRun: dry})
		if err != nil || purged != (carillon.PurgeResult{Runs: 1 << 40, More: !dry}) {
			t.Errorf("purged: %+v, %v", purged, err)
		}
	}
}

var errEnough = errors.New("enough")

// TestAClusterThroughAClient: what the cluster says reaches the caller, and what the caller asks the cluster.
func TestAClusterThroughAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
		cluster := &three{status: carillon.ClusterStatus{
			Nodes: []carillon.Node{{ID: "a", Address: "a:1", HTTP: "a:2", Sidecars: "a:3", Owns: 2,
				Skew: -time.Second, SkewKnown: true},
				{ID: "b", Draining: true}, {ID: "c", SkewKnown: true}},
			Partitions: []carillon.PartitionOwner{{Partition: 0, Epoch: 1 << 60, Node: "a",
				Until: until}, {Partition: 1}},
		}}
		_, c := serve(t, &stub{}, grpcapi.Options{Cluster: grpcapi.NewClusterService(cluster)})
		status, err := c.ClusterStatus(t.Context())
		if err != nil || !reflect.DeepEqual(status, cluster.status) {
			t.Errorf("got %+v, %v", status, err)
		}
		if err := errors.Join(c.DrainNode(t.Context(), "b"), c.Rebalance(t.Context())); err != nil {
			t.Error(err)
		}
		if err := c.DrainNode(t.Context(), "nobody"); carillon.KindOf(err) != carillon.NotFound {
			t.Errorf("drain of nobody: %v", err)
		}
		if want := []string{"drain b", "rebalance", "drain nobody"}; !reflect.DeepEqual(cluster.asked, want) {
			t.Errorf("asked %v, want %v", cluster.asked, want)
		}
		queues, err := c.ListQueues(t.Context(), carillon.QueueQuery{Namespace: "n", Kind: "http", PageToken: "t"})
		if err != nil || !reflect.DeepEqual(queues, carillon.QueuePage{Queues: []carillon.Queue{{Namespace: "n",
			Kind: "http", Name: "q", Ready: 1, Staged: 1 << 40, Unserved: true}}, NextPageToken: "t+",
			Unheard: []string{"c"}}) {
			t.Errorf("got %+v, %v", queues, err)
		}
		workers, err := c.ListWorkers(t.Context(), carillon.WorkerQuery{Namespace: "n", Kind: "dapr", Queue: "r",
			PageSize: 7, PageToken: "t"})
		if err != nil || !reflect.DeepEqual(workers, carillon.WorkerPage{Workers: []carillon.Worker{{Namespace: "n",
			Kind: "dapr", ID: "w", Node: "a", Queues: []string{"r"}, Credits: 7}}, NextPageToken: "t+",
			Unheard: []string{"c"}}) {
			t.Errorf("got %+v, %v", workers, err)
		}
		taken, err := c.ListIngests(t.Context(), carillon.IngestQuery{Namespace: "n", PageSize: 7, PageToken: "t"})
		if err != nil || !reflect.DeepEqual(taken, carillon.IngestPage{Ingests: ingests("n", 7), NextPageToken: "t+",
			Unheard: []string{"c"}}) {
			t.Errorf("got %+v, %v", taken, err)
		}
		steer(t, c)
		var seen [][]carillon.Node
		err = c.WatchNodes(t.Context(), func(nodes []carillon.Node) error {
			if seen = append(seen, nodes); len(seen) == 3 {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) || !reflect.DeepEqual(seen[2], cluster.status.Nodes) {
			t.Errorf("watched %v, %v", seen, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = c.WatchNodes(ctx, func([]carillon.Node) error { cancel(); return nil })
		if carillon.KindOf(err) != carillon.Canceled {
			t.Errorf("a watch whose caller went: %v", err)
		}
	})
}

// TestAnOlderServerHasNoCluster: the error says so, and not that the call is wrong.
func TestAnOlderServerHasNoCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := serve(t, &stub{}, grpcapi.Options{})
		for name, call := range map[string]func(*client.Client) error{
			"status":    func(c *client.Client) error { _, err := c.ClusterStatus(t.Context()); return err },
			"drain":     func(c *client.Client) error { return c.DrainNode(t.Context(), "a") },
			"rebalance": func(c *client.Client) error { return c.Rebalance(t.Context()) },
			"watch":     func(c *client.Client) error { return c.WatchNodes(t.Context(), nil) },
		} {
			err := call(c)
			if carillon.KindOf(err) != carillon.FailedPrecondition ||
				!strings.Contains(err.Error(), "knows nothing of clusters") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

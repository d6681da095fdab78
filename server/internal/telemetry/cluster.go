package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/engine"
)

// clusterBuckets are of calls between nodes and of partitions on the move.
var clusterBuckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}

// clusterMetrics are about a node's part in its cluster. A node that is alone has them too, and they stay
// zero.
type clusterMetrics struct {
	joinFailures prometheus.Counter
	forwarded    prometheus.Histogram
	again        prometheus.Counter
	claims       prometheus.Histogram
	handOvers    prometheus.Histogram
	lost         prometheus.Counter
	dropped      prometheus.Counter
}

func (m *Metrics) newCluster() clusterMetrics {
	return clusterMetrics{
		joinFailures: m.counter(clusterJoinFailures), forwarded: m.histogram(clusterForwarded,
			clusterBuckets), again: m.counter(clusterAgain),
		claims: m.histogram(clusterClaims, clusterBuckets), handOvers: m.histogram(clusterHandOvers,
			clusterBuckets), lost: m.counter(clusterLost),
		dropped: m.counter(clusterDropped),
	}
}

// ClusterEvents are what the node's part in a cluster is to tell.
func (m *Metrics) ClusterEvents() cluster.Events {
	return cluster.Events{
		JoinFailed: m.cluster.joinFailures.Inc,
		Forwarded:  func(took time.Duration) { m.cluster.forwarded.Observe(took.Seconds()) },
		Again:      m.cluster.again.Inc,
	}
}

// moves adds to the engine's events those of partitions that come and go.
func (m *Metrics) moves(e engine.Events) engine.Events {
	e.Owned = func(_ int, took time.Duration) { m.cluster.claims.Observe(took.Seconds()) }
	e.HandedOver = func(_ int, took time.Duration) { m.cluster.handOvers.Observe(took.Seconds()) }
	e.Lost = func(int) { m.cluster.lost.Inc() }
	e.Dropped = func(n int) { m.cluster.dropped.Add(float64(n)) }
	return e
}

// ClusterStats are figures of a cluster as a node sees it.
type ClusterStats struct {
	Members int
	Unfit   int // 1: this node is
	Refused int // partitions
	Skew    time.Duration
}

// WatchCluster shows the figures of the cluster, once. Without it the node is alone.
func (m *Metrics) WatchCluster(stats func() ClusterStats) { m.clusterStats.Store(&stats) }

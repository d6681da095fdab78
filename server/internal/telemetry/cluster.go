package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// JoinFailed counts a heartbeat that could not be written into the store.
func (m *Metrics) JoinFailed() { m.cluster.joinFailures.Inc() }

// Forwarded measures a call that a peer has done or refused.
func (m *Metrics) Forwarded(took time.Duration) { m.cluster.forwarded.Observe(took.Seconds()) }

// Again counts a call that has not found its partition's owner and is tried again.
func (m *Metrics) Again() { m.cluster.again.Inc() }

// Owned measures how long it took to claim and load a partition.
func (m *Metrics) Owned(_ int, took time.Duration) { m.cluster.claims.Observe(took.Seconds()) }

// HandedOver measures how long it took to hand a partition over.
func (m *Metrics) HandedOver(_ int, took time.Duration) { m.cluster.handOvers.Observe(took.Seconds()) }

// Lost counts a partition whose term was lost.
func (m *Metrics) Lost(int) { m.cluster.lost.Inc() }

// Dropped counts reports that no owner takes.
func (m *Metrics) Dropped(n int) { m.cluster.dropped.Add(float64(n)) }

// ClusterStats are figures of a cluster as a node sees it.
type ClusterStats struct {
	Members int
	Unfit   int // 1: this node is
	Refused int // partitions
	Skew    time.Duration
}

// WatchCluster shows the figures of the cluster, once. Without it the node is alone.
func (m *Metrics) WatchCluster(stats func() ClusterStats) { m.clusterStats.Store(&stats) }

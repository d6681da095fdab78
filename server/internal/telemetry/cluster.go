package telemetry

import "time"

// What follows is about a node's part in its cluster. A node that is alone has these metrics too, and they
// stay zero.

// JoinFailed counts a heartbeat that could not be written into the store.
func (m *Metrics) JoinFailed() { m.counters[clusterJoinFailures].Inc() }

// Forwarded measures a call that a peer has done or refused.
func (m *Metrics) Forwarded(took time.Duration) {
	m.histograms[clusterForwarded].Observe(took.Seconds())
}

// Again counts a call that has not found its partition's owner and is tried again.
func (m *Metrics) Again() { m.counters[clusterAgain].Inc() }

// Owned measures how long it took to claim and load a partition.
func (m *Metrics) Owned(_ int, took time.Duration) {
	m.histograms[clusterClaims].Observe(took.Seconds())
}

// HandedOver measures how long it took to hand a partition over.
func (m *Metrics) HandedOver(_ int, took time.Duration) {
	m.histograms[clusterHandOvers].Observe(took.Seconds())
}

// Lost counts a partition whose term was lost.
func (m *Metrics) Lost(int) { m.counters[clusterLost].Inc() }

// Dropped counts reports that no owner takes.
func (m *Metrics) Dropped(n int) { m.counters[clusterDropped].Add(float64(n)) }

// ClusterStats are figures of a cluster as a node sees it.
type ClusterStats struct {
	Members int
	Unfit   int // 1: this node is
	Refused int // partitions
	Skew    time.Duration
}

// WatchCluster shows the figures of the cluster, once. Without it the node is alone.
func (m *Metrics) WatchCluster(stats func() ClusterStats) { m.clusterStats.Store(&stats) }

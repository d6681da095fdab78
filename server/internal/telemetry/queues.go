package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// queueState is what the hub and the engine know of a queue. Either may know nothing: an idle consumer has no
// backlog, and nobody may be there to take what waits.
type queueState struct {
	dispatch.QueueStats
	delivery.Backlog
}

// waits reports whether due runs wait in the queue.
func (q *queueState) waits() bool { return q.Len() > 0 }

// unserved reports whether due runs wait in the queue and nobody takes them, although it is not paused. For
// HTTP and brokers nobody need connect.
func (q *queueState) unserved() bool {
	return q.waits() && q.Consumers == q.Silent && !q.Queue.Sent() && !q.Paused
}

// queues shows the queues in use, also those that nobody serves.
func (c *collector) queues(out chan<- prometheus.Metric, show func(name string, n int, labels ...string)) {
	all, staged, unserved := c.queueStates(), 0, 0
	for i := range all {
		staged += all[i].Staged
		if all[i].unserved() {
			unserved++
		}
	}
	show(stagedRuns, staged)
	show(unservedQueues, unserved)
	show(queues, len(all))
	now := c.sources.Now().UnixNano()
	for _, q := range all[:min(len(all), maxQueues)] {
		labels := []string{q.Queue.Namespace, q.Queue.Kind, q.Queue.Address}
		age := 0.0
		if q.waits() {
			age = float64(max(0, now-q.Oldest)) / 1e9
		}
		out <- prometheus.MustNewConstMetric(descs[queueOldest], prometheus.GaugeValue, age, labels...)
		show(queueDepth, q.Ready, labels...)
		show(queuePermits, q.Permits, labels...)
		show(queueStaged, q.Staged, labels...)
		show(queueConsumers, q.Consumers, labels...)
		show(queueSilent, q.Silent, labels...)
		show(queueCredits, q.Credits, labels...)
		show(queueInFlight, q.InFlight, labels...)
		show(queuePartitions, q.QueueStats.Waiting, labels...)
		paused := 0
		if q.Paused {
			paused = 1
		}
		show(queuePaused, paused, labels...)
	}
}

// queueStates are the queues in use: those in which runs wait first, each kind in the order of their names.
func (c *collector) queueStates() []queueState {
	all := map[delivery.Queue]queueState{}
	for _, q := range c.sources.Queues() {
		all[q.Queue] = queueState{QueueStats: q}
	}
	for name, b := range c.sources.Backlog() {
		q := all[name]
		q.Queue, q.Backlog = name, b
		all[name] = q
	}
	return slices.SortedFunc(maps.Values(all), func(a, b queueState) int {
		if a.waits() != b.waits() {
			if a.waits() {
				return -1
			}
			return 1
		}
		return a.Queue.Compare(b.Queue)
	})
}

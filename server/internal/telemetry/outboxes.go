package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// OutboxStats is how an outbox and its reader on this node stand.
type OutboxStats struct {
	Name      string
	Connected bool
	Reading   bool // only then is the rest known
	Waiting   int
	Oldest    time.Duration
}

// WatchOutboxes shows how outboxes stand, once. Without it there are none.
func (m *Metrics) WatchOutboxes(stats func() []OutboxStats) { m.outboxStats.Store(&stats) }

// OutboxDone counts commands of an outbox that are done.
func (m *Metrics) OutboxDone(outbox string, n int) {
	m.outboxes.done.WithLabelValues(outbox).Add(float64(n))
}

// OutboxRejected counts commands of an outbox that were refused.
func (m *Metrics) OutboxRejected(outbox string, n int) {
	m.outboxes.rejected.WithLabelValues(outbox).Add(float64(n))
}

// outboxes shows how outboxes stand.
func (c *collector) outboxes(out chan<- prometheus.Metric, show func(name string, n int, labels ...string)) {
	watch := c.metrics.outboxStats.Load()
	if watch == nil {
		return
	}
	for _, s := range (*watch)() {
		show(outboxConnected, number(s.Connected), s.Name)
		show(outboxReading, number(s.Reading), s.Name)
		if s.Reading {
			show(outboxWaiting, s.Waiting, s.Name)
			out <- prometheus.MustNewConstMetric(descs[outboxOldest], prometheus.GaugeValue, s.Oldest.Seconds(),
				s.Name)
		}
	}
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

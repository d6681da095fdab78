// Package daprmetrics counts under the names of Dapr's own scheduler, so that dashboards and alerts for it go
// on working.
//
//	table.go      every metric with its meaning: the only place where they are named
//	metrics.go    what the face for sidecars tells → counters
//	latencies.go  the histogram, by OpenCensus' rule for bounds
//	kinds.go      the values of labels
//	limits.go     concurrency limits, read when somebody asks
package daprmetrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/partition"
)

// Node has the metrics of a node, such as [*telemetry.Metrics].
type Node interface {
	Add(cs ...prometheus.Collector)
	OnStaged(f func(q delivery.Queue, n int))
}

// Metrics are those of one node's face for sidecars.
type Metrics struct {
	sidecars  prometheus.Gauge
	latencies *latencies
	counters  map[series]prometheus.Counter
}

// series is one of a counter's: its name, and the value of its label if it has one.
type series struct{ name, label string }

// New makes the metrics and adds them to those of the node, with what limits tells of concurrency limits.
func New(r Node, limits func() []partition.Tally) *Metrics {
	m := &Metrics{
		sidecars:  prometheus.NewGauge(prometheus.GaugeOpts{Name: sidecars, Help: metric(sidecars).Help}),
		latencies: newLatencies(latency),
		counters:  map[series]prometheus.Counter{},
	}
	r.Add(m.sidecars, m.latencies, collector{limits})
	for _, line := range table {
		if line.Type != "counter" || line.Name == throttled {
			continue
		}
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: line.Name, Help: line.Help}, line.Labels)
		r.Add(c)
		for _, label := range labelValues[strings.Join(line.Labels, "")] {
			m.counters[series{line.Name, strings.Join(label, "")}] = c.WithLabelValues(label...)
		}
	}
	r.OnStaged(m.staged)
	return m
}

// staged counts runs that found no sidecar: Dapr counts each once as undelivered.
func (m *Metrics) staged(q delivery.Queue, n int) {
	if q.Kind != "dapr" {
		return
	}
	kind := KindJob
	if strings.HasPrefix(q.Address, "actor/") {
		kind = KindActor
	}
	m.counters[series{Undelivered, kind}].Add(float64(n))
}

// Count counts what one of the counters counts, under the value of its label, "" if it has none.
func (m *Metrics) Count(counter, label string) {
	if c := m.counters[series{counter, label}]; c != nil {
		c.Inc()
	}
}

// Took measures from when an attempt was handed to a sidecar to its result, in whole milliseconds as Dapr
// does.
func (m *Metrics) Took(kind string, took time.Duration) {
	m.latencies.observe(kind, float64(took.Milliseconds()))
}

// Sidecars counts streams that came or left.
func (m *Metrics) Sidecars(change int) { m.sidecars.Add(float64(change)) }

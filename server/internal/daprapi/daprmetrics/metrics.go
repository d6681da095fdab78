// Package daprmetrics counts under the names of Dapr's own scheduler, so that dashboards and alerts for it go
// on working.
//
//	table.go     every metric with its meaning: the only place where they are named
//	metrics.go   what the face for sidecars tells → counters
//	kinds.go     what things are counted by
//	gates.go     concurrency limits, read when somebody asks
package daprmetrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/dispatch"
)

// latencyBuckets are Dapr's, in milliseconds.
var latencyBuckets = []float64{100, 500, 1000, 5000, 10000}

// Node has the metrics of a node, such as [*telemetry.Metrics].
type Node interface {
	Add(cs ...prometheus.Collector)
	OnStaged(f func(q delivery.Queue, n int))
}

// Metrics are those of one node's face for sidecars.
type Metrics struct {
	sidecars    prometheus.Gauge
	bulkDeleted prometheus.Counter
	errors      map[SidecarError]prometheus.Counter
	kinds       map[Kind]*kind
}

// kind is what is counted of one type of jobs.
type kind struct {
	created, createdFailed, triggered, failed, undelivered, deleted prometheus.Counter
	latency                                                         prometheus.Observer
}

// New makes the metrics and adds them to those of the node, with what gates tells of concurrency limits.
func New(r Node, gates func() []dispatch.GateStats) *Metrics {
	m := &Metrics{
		sidecars:    prometheus.NewGauge(prometheus.GaugeOpts(opts(sidecars))),
		bulkDeleted: prometheus.NewCounter(prometheus.CounterOpts(opts(bulkDeleted))),
		errors:      map[SidecarError]prometheus.Counter{},
		kinds:       map[Kind]*kind{},
	}
	r.Add(m.sidecars, m.bulkDeleted, collector{gates})
	counters := func(name string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts(opts(name)), metric(name).Labels)
		r.Add(c)
		return c
	}
	perKind := map[string]*prometheus.CounterVec{}
	for _, name := range []string{created, createdFailed, triggered, failed, undelivered, deleted} {
		perKind[name] = counters(name)
	}
	latencies := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: latency,
		Help: metric(latency).Help, Buckets: latencyBuckets}, ofKind)
	r.Add(latencies)
	for _, k := range []Kind{KindJob, KindActor, KindUnknown} {
		of := func(name string) prometheus.Counter { return perKind[name].WithLabelValues(string(k)) }
		m.kinds[k] = &kind{
			created: of(created), createdFailed: of(createdFailed), triggered: of(triggered), failed: of(failed),
			undelivered: of(undelivered), deleted: of(deleted), latency: latencies.WithLabelValues(string(k)),
		}
	}
	reasons := counters(errorsOf)
	for _, e := range []SidecarError{ErrorSend, ErrorRecv, ErrorAuth} {
		m.errors[e] = reasons.WithLabelValues(string(e))
	}
	r.OnStaged(m.staged)
	return m
}

// staged counts runs that found no sidecar: Dapr counts each once as undelivered.
func (m *Metrics) staged(q delivery.Queue, n int) {
	if q.Kind != "dapr" {
		return
	}
	k := KindJob
	if strings.HasPrefix(q.Address, "actor/") {
		k = KindActor
	}
	m.of(k).undelivered.Add(float64(n))
}

func opts(name string) prometheus.Opts {
	return prometheus.Opts{Name: name, Help: metric(name).Help}
}

// of is what is counted of a kind; one that nobody knows is unknown.
func (m *Metrics) of(k Kind) *kind {
	if known := m.kinds[k]; known != nil {
		return known
	}
	return m.kinds[KindUnknown]
}

// Scheduled counts a job that was stored.
func (m *Metrics) Scheduled(k Kind) { m.of(k).created.Inc() }

// ScheduleFailed counts a job that could not be stored.
func (m *Metrics) ScheduleFailed(k Kind) { m.of(k).createdFailed.Inc() }

// Deleted counts a call that deletes one job.
func (m *Metrics) Deleted(k Kind) { m.of(k).deleted.Inc() }

// BulkDeleted counts a call that deletes many.
func (m *Metrics) BulkDeleted() { m.bulkDeleted.Inc() }

// Triggered counts a success.
func (m *Metrics) Triggered(k Kind, took time.Duration) {
	m.of(k).triggered.Inc()
	m.of(k).latency.Observe(milliseconds(took))
}

// TriggerFailed counts a failure.
func (m *Metrics) TriggerFailed(k Kind, took time.Duration) {
	m.of(k).failed.Inc()
	m.of(k).latency.Observe(milliseconds(took))
}

// Undelivered counts an attempt that nobody has taken.
func (m *Metrics) Undelivered(k Kind) { m.of(k).undelivered.Inc() }

// Sidecars counts streams that came or left.
func (m *Metrics) Sidecars(change int) { m.sidecars.Add(float64(change)) }

// SidecarError counts what went wrong with a sidecar.
func (m *Metrics) SidecarError(reason SidecarError) {
	if c := m.errors[reason]; c != nil {
		c.Inc()
	}
}

// milliseconds is d as Dapr has it: whole ones.
func milliseconds(d time.Duration) float64 { return float64(d.Milliseconds()) }

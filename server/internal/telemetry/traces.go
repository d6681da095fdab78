package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillonhq/carillon/server/internal/delivery"
)

// ShowExemplars has measurements of runs name the trace of the last one measured, where it is recorded. They
// are served to those who ask for OpenMetrics. Call it before anything is measured.
func (m *Metrics) ShowExemplars() { m.exemplars = true }

// Spans counts spans by what became of them.
func (m *Metrics) Spans(outcome string, n int) { m.spans.WithLabelValues(outcome).Add(float64(n)) }

// observe measures something of an attempt with the trace context t.
func (m *Metrics) observe(o prometheus.Observer, value float64, t delivery.Trace) {
	if m.exemplars && t.Sampled() {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			parent := t.Parent() // 00-TRACE-SPAN-01
			e.ObserveWithExemplar(value, prometheus.Labels{"trace_id": parent[3:35], "span_id": parent[36:52]})
			return
		}
	}
	o.Observe(value)
}
